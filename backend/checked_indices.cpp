// Elements that a kernel computes are not checked: they are clamped where they are read (element_view.cpp), as all are,
// so that a wrong index never reads outside of a tensor.
#include "backend/checked_indices.h"

#include <algorithm>

#include "ir/op_def.h"

namespace weftc {

namespace {

/// weft::Count has room for so many named lengths.
constexpr size_t kMostFactors = 4;

/// The dimension of the data that one index of the op stands for; -1 where an entry has several.
int looked_up_dim(const KernelContext& context, const Op& op) {
  switch (op.kind) {
    case OpKind::Gather:
    case OpKind::GatherElements:
      return static_cast<int>(op.integer("axis"));
    case OpKind::GatherND:
      return context.dims(op.inputs[1]).back() == 1 ? static_cast<int>(op.integer_or("batch_dims", 0)) : -1;
    default:
      return -1;
  }
}

/// The body's input whose elements, all of them and no others, the value has.
ValueId origin_of(const Graph& body, ValueId value) {
  while (true) {
    const Op& op = body.producer_op(value);
    const bool keeps = op.kind == OpKind::Reshape || op.kind == OpKind::Transpose || op.kind == OpKind::Expand;
    const bool widens = op.kind == OpKind::Cast && is_integer(body.type(op.inputs[0]).dtype);
    if (!keeps && !widens) return op.kind == OpKind::Input ? value : ValueId{};
    value = op.inputs[0];
  }
}

/// How many elements a rank has, if they lie in a row at the beginning of the operand's memory.
std::optional<Length> valid_elements(const KernelContext& context, ValueId input) {
  const TensorType& type = context.body.type(input);
  const Storage& storage = context.kernel.parameters[context.input_parameter(input)].storage;
  const Dims dims = context.dims(input);
  Length count = 1;
  int64_t before = 1;  // indices of the dimensions in front
  for (int d = 0; d < type.ndim(); ++d) {
    const Extent& extent = type.shape[d];
    const std::vector<Digit> digits = context.digits(type, d);
    const bool is_sparse = storage.by_bounds && before != 1;
    if (is_ragged(extent.bound, digits) || (extent.is_run_time() && (is_sparse || !digits.empty()))) return {};
    count = count * (extent.is_run_time() ? length_of(extent) : Length(dims[d]));
    before *= extent.bound;
  }
  return count;
}

bool is_product(const Length& length) {
  const auto is_name = [](const LengthSymbolPtr& factor) { return factor->kind == LengthSymbol::Kind::Named; };
  const std::vector<Length::Term>& terms = length.terms();
  return terms.empty() || (terms.size() == 1 && terms[0].factors.size() <= kMostFactors &&
                           std::all_of(terms[0].factors.begin(), terms[0].factors.end(), is_name));
}

}  // namespace

std::vector<CheckedIndices> checked_indices(const KernelContext& context) {
  const Graph& body = context.body;
  std::vector<CheckedIndices> found;
  for (const OpId id : body.order()) {
    const Op& op = body.op(id);
    const int dim = looked_up_dim(context, op);
    if (dim < 0) continue;
    const ValueId indices = origin_of(body, op.inputs[1]);
    const Length extent = length_of(body.type(op.inputs[0]).shape[static_cast<size_t>(dim)]);
    const std::optional<Length> count = indices ? valid_elements(context, indices) : std::nullopt;
    if (!count || !is_product(*count) || !is_product(extent)) continue;
    const size_t parameter = context.input_parameter(indices);
    const bool is_checked = std::any_of(found.begin(), found.end(), [&](const CheckedIndices& other) {
      return other.parameter == parameter && (extent - other.extent).low() >= 0;
    });
    if (!is_checked) found.push_back({parameter, *count, extent, id});
  }
  return found;
}

}  // namespace weftc
