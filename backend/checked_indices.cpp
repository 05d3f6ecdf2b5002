// Elements that a kernel computes are not checked: they are clamped where they are read (element_view.cpp), as all are,
// so that a wrong index never reads outside of a tensor.
#include "backend/checked_indices.h"

#include <algorithm>

#include "ir/op_def.h"

namespace weftc {

namespace {

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

bool has_only_valid_elements(const KernelContext& context, const TensorType& type) {
  for (int d = 0; d < type.ndim(); ++d)
    if (type.shape[d].is_run_time() || is_ragged(type.shape[d].bound, context.digits(type, d))) return false;
  return true;
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
    const Extent& extent = body.type(op.inputs[0]).shape[static_cast<size_t>(dim)];
    if (!indices || extent.is_run_time() || !has_only_valid_elements(context, body.type(indices))) continue;
    const auto at = std::find(body.inputs().begin(), body.inputs().end(), indices);
    const size_t parameter = static_cast<size_t>(at - body.inputs().begin());
    const bool is_checked = std::any_of(found.begin(), found.end(), [&](const CheckedIndices& other) {
      return other.parameter == parameter && other.extent <= extent.bound;
    });
    if (!is_checked) found.push_back({parameter, element_count(context.dims(indices)), extent.bound, id});
  }
  return found;
}

}  // namespace weftc
