// Follows reads of the operand from one element of each output through views and pointwise ops, as index expressions.
// Each must end at the position of that element. A reduction is accepted only if the kernel's rows are reduced by it,
// since a row is reduced before its elements are stored.
#include "ir/kernel/in_place.h"

#include <algorithm>
#include <set>
#include <string>

#include "ir/base/contains.h"
#include "ir/op_def.h"

namespace weftc {

namespace {

/// True for strategies that load all operands of an element before they store it, and nothing later. Or they do so by
/// row: its reductions first, then its elements.
bool computes_by_element(const Strategy& strategy) {
  return std::holds_alternative<Elementwise>(strategy) || std::holds_alternative<Rows>(strategy) ||
         std::holds_alternative<PeerExchange>(strategy) || std::holds_alternative<PlainLoops>(strategy) ||
         std::holds_alternative<Append>(strategy) || std::holds_alternative<Scatter>(strategy);
}

/// Follows the reads of one parameter from element `element` of an output.
class OperandReads {
 public:
  OperandReads(const KernelBody& body, size_t operand, const IndexDims& dims, const IndexList& element, IndexExpr at)
      : body_(body),
        graph_(body.body),
        operand_(operand),
        dims_(dims),
        element_(element),
        at_(std::move(at)),
        depends_(graph_.value_capacity(), false) {
    depends_[graph_.inputs()[operand].index] = true;
    for (OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      const bool depends =
          std::any_of(op.inputs.begin(), op.inputs.end(), [&](ValueId v) { return v && depends_[v.index]; });
      for (ValueId v : op.outputs) depends_[v.index] = depends_[v.index] || depends;
    }
  }

  bool reach(ValueId value) const { return depends_[value.index]; }

  /// The index of the element's row in a result of `dims` with one element for each row; nothing for other dims.
  std::optional<IndexList> row_of(const IndexDims& dims) const {
    const Op* reduction = first_reduction();
    if (!reduction || body_.extents(reduction->inputs[0]) != dims_) return {};
    IndexList kept, full;
    IndexDims kept_dims, full_dims;
    for (size_t d = 0; d < dims_.size(); ++d) {
      const bool is_reduced = contains(reduction->ints("axes"), static_cast<int64_t>(d));
      full.push_back(is_reduced ? IndexExpr(0) : element_[d]);
      full_dims.push_back(is_reduced ? Scale(1) : dims_[d]);
      if (!is_reduced) kept.push_back(element_[d]), kept_dims.push_back(dims_[d]);
    }
    return dims == kept_dims ? std::optional(kept) : dims == full_dims ? std::optional(full) : std::nullopt;
  }

  /// Whether element `index` of a value depends on the operand only at the element's own position, or through a
  /// reduction of the element's own row.
  bool are_own(ValueId value, const IndexList& index) {
    if (!value || !reach(value)) return true;
    // An element that was visited before was found valid, or the answer is false already.
    if (!seen_.insert({value.index, linear_index(index, body_.extents(value)).text()}).second) return true;
    const Op& op = graph_.producer_op(value);
    switch (category(op)) {
      case Category::Source:
        return body_.offset(body_.kernel.parameters[operand_], index) == at_;
      case Category::Pointwise:
        return std::all_of(op.inputs.begin(), op.inputs.end(),
                           [&](ValueId v) { return !v || are_own(v, broadcast_index(index, body_.dims(v))); });
      case Category::View:
        return view_is_own(value, op, index);
      case Category::Index:
        return scatter_is_own(op, index);
      case Category::Reduction:
        return reduction_is_own(op, index);
      default:
        return false;
    }
  }

 private:
  /// An element selected outside of the operand is not used, wherever it is read from.
  bool view_is_own(ValueId value, const Op& op, const IndexList& index) {
    if (op.kind == OpKind::Concat) {
      const bool is_first = reach(op.inputs[0]);
      return is_first && are_own(op.inputs[0], index) &&
             std::none_of(op.inputs.begin() + 1, op.inputs.end(), [&](ValueId v) { return reach(v); });
    }
    const std::optional<IndexList> from = body_.view_index(value, index);
    return from && are_own(op.inputs[0], *from);
  }

  /// The data of a scatter stay in place. Each thread that writes an element reads its indices and updates.
  bool scatter_is_own(const Op& op, const IndexList& index) {
    if (op.kind != OpKind::ScatterElements && op.kind != OpKind::ScatterND) return false;
    return !reach(op.inputs[1]) && !reach(op.inputs[2]) && are_own(op.inputs[0], index);
  }

  /// Kernels of rows reduce over the dimensions of their first reduction, all elements of a row before one is stored.
  bool reduction_is_own(const Op& op, const IndexList& index) {
    const Op* first = first_reduction();  // null without a reduction: a sum of a scalar
    if (!first || !op.has("axes") || op.ints("axes") != first->ints("axes") || body_.extents(op.inputs[0]) != dims_)
      return false;
    const std::optional<IndexList> row = row_of(body_.extents(op.outputs[0]));
    return row && index == *row && are_own(op.inputs[0], element_);
  }
  const Op* first_reduction() const {
    for (OpId id : graph_.order())
      if (const Op& op = graph_.op(id);
          category(op) == Category::Reduction && op.has("axes") && !op.ints("axes").empty())
        return &op;
    return nullptr;
  }

  const KernelBody& body_;
  const Graph& graph_;
  const size_t operand_;
  const IndexDims& dims_;
  const IndexList& element_;
  const IndexExpr at_;  // of the element, in the output's memory
  std::vector<bool> depends_;
  std::set<std::pair<uint32_t, std::string>> seen_;
};

}  // namespace

bool updates_in_place(const KernelBody& body, size_t operand, size_t output) {
  const Kernel& kernel = body.kernel;
  const Parameter &from = kernel.parameters[operand], &to = kernel.parameters[body.output_parameter(output)];
  if (from.window || to.window || from.weight || from.type.dtype != to.type.dtype) return false;
  if (!computes_by_element(kernel.strategy) || (kernel.in_chunks && !computes_by_element(*kernel.in_chunks)))
    return false;
  if (element_count(body.dims(body.computed_value(output))) == 0) return false;
  const IndexDims dims = body.extents(body.computed_value(output));
  const IndexList element = element_of(dims, "o");
  OperandReads reads(body, operand, dims, element, body.offset(to, element));
  for (size_t o = 0; o < body.body.outputs().size(); ++o) {
    const ValueId value = body.computed_value(o);
    if (!reads.reach(value)) continue;
    // Outputs of one shape are stored in one loop; outputs with one element a row before it. Other outputs are stored
    // in a loop before or after it.
    const std::optional<IndexList> own = body.extents(value) == dims ? element : reads.row_of(body.extents(value));
    if (!own || !reads.are_own(value, *own)) return false;
  }
  return true;
}

std::optional<size_t> appended_axis(const KernelBody& body, size_t operand) {
  if (body.body.outputs().size() != 1 || !std::holds_alternative<Elementwise>(body.kernel.strategy) ||
      body.kernel.in_chunks)
    return {};
  const Op& op = body.body.producer_op(body.body.outputs()[0].value);
  if (op.kind != OpKind::Concat || !updates_in_place(body, operand, 0)) return {};
  const size_t axis = static_cast<size_t>(op.integer("axis"));
  const bool has_length = body.run_extent_of(body.body.type(op.inputs[0]), static_cast<int>(axis)).has_value();
  return has_length ? std::optional(axis) : std::nullopt;
}

}  // namespace weftc
