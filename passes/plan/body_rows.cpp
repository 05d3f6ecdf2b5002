// Propagates known rows of operands forward and of results backward through the ops of a body, until nothing changes.
#include "passes/plan/body_rows.h"

#include "ir/looked_up_dims.h"
#include "ir/op_def.h"
#include "passes/layout/layout_rules.h"

namespace weftc {

namespace {

using Kind = AxisState::Kind;

class RowFinder {
 public:
  RowFinder(const Module& module, const Graph& body, const Length& count, BodyRows known)
      : module_(module),
        body_(body),
        count_(count),
        axis_{{"rows", static_cast<int>(count.high())}},
        rows_(std::move(known)) {}

  std::optional<BodyRows> run() {
    do {
      is_changed_ = false;
      for (OpId id : body_.order())
        if (!visit(body_.op(id))) return {};
    } while (is_changed_);
    return std::move(rows_);
  }

 private:
  bool is_sliced(ValueId v) const { return v && rows_[v.index].has_rows(); }
  /// Whether rows are only a part of their dimension.
  bool is_part(ValueId v) const { return is_sliced(v) && !are_all(v, rows_[v.index].state); }
  bool are_all(ValueId v, const AxisState& state) const {
    return length_of(body_.type(v).shape[static_cast<size_t>(state.dim)]) == count_ * state.block;
  }

  bool visit(const Op& op) {
    if (op.kind == OpKind::Input) return true;
    const bool reads = std::any_of(op.inputs.begin(), op.inputs.end(), [&](ValueId v) { return is_sliced(v); });
    const bool makes = std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId v) { return is_sliced(v); });
    if (!reads && !makes) return true;
    if (op.kind == OpKind::Slice && makes && cuts(op)) return cut_from(op);
    if (makes && is_part(op.outputs[0])) return op.kind == OpKind::Reshape && reshape_part(op);
    if (!has_rule(op)) return false;
    return reads ? go_forward(op) : go_backward(op);
  }

  /// A look-up has rows, except along the dimensions that it looks up in, where an index may mean any row.
  bool has_rule(const Op& op) const {
    switch (category(op)) {
      case Category::Pointwise:
      case Category::View:
      case Category::Reduction:
      case Category::Contraction:
        return true;
      case Category::Index: {
        const bool is_look_up = op.kind == OpKind::Gather || op.kind == OpKind::GatherElements ||
                                op.kind == OpKind::ScatterND || op.kind == OpKind::ScatterElements;
        if (!is_look_up) return false;
        const auto dims = looked_up_dims(op, body_.type(op.inputs[0]), body_.type(op.inputs[1]));
        const AxisState data = rows_[op.inputs[0].index].state;
        return dims && !(data.is(Kind::S) && data.dim >= dims->first && data.dim < dims->first + dims->count);
      }
      default:
        return false;
    }
  }

  /// Whether the Slice takes the rows of its result out of a longer dimension.
  bool cuts(const Op& op) const {
    const size_t dim = static_cast<size_t>(rows_[op.outputs[0].index].state.dim);
    return !(body_.type(op.inputs[0]).shape[dim] == body_.type(op.outputs[0]).shape[dim]);
  }

  bool cut_from(const Op& op) {
    ValueRows rows = rows_[op.outputs[0].index];
    const size_t dim = static_cast<size_t>(rows.state.dim);
    rows.first += op.ints("starts")[dim];
    return op.ints("steps")[dim] == 1 && put_part(op.inputs[0], rows);
  }

  /// A Reshape that adds or drops dimensions of one element keeps the others, and rows that are a part of one.
  bool reshape_part(const Op& op) {
    ValueRows rows = rows_[op.outputs[0].index];
    const Dims from = body_.type(op.inputs[0]).dims(), to = body_.type(op.outputs[0]).dims();
    const auto longer = [](int64_t extent) { return extent != 1; };
    Dims kept_from, kept_to;
    std::copy_if(from.begin(), from.end(), std::back_inserter(kept_from), longer);
    std::copy_if(to.begin(), to.end(), std::back_inserter(kept_to), longer);
    if (kept_from != kept_to) return false;
    auto number = std::count_if(to.begin(), to.begin() + rows.state.dim, longer);
    rows.state.dim = 0;
    for (size_t d = 0; d < from.size(); ++d)
      if (longer(from[d]) && number-- == 0) rows.state.dim = static_cast<int>(d);
    return put_part(op.inputs[0], rows);
  }

  /// Rows that are a part of a dimension have one reader, which knows where they are.
  bool put_part(ValueId v, const ValueRows& rows) {
    if (rows_[v.index] == rows) return true;
    const OpKind kind = body_.producer_op(v).kind;
    if (!count_.is_constant() || is_sliced(v) || body_.value(v).uses.size() != 1 ||
        (kind != OpKind::Input && kind != OpKind::Reshape))
      return false;
    rows_[v.index] = rows;
    return is_changed_ = true;
  }

  bool go_forward(const Op& op) {
    const OpLayouts settled = settle(OpView(module_, body_, op), axis_, arriving(op));
    if (!settled.refusal.empty()) return false;
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (op.inputs[i] && !put(op.inputs[i], settled.operands[i][0])) return false;
    for (size_t r = 0; r < op.outputs.size(); ++r)
      if (!settled.results[r][0].is(Kind::S) || !put(op.outputs[r], settled.results[r][0])) return false;
    return true;
  }

  /// A result that repeats its operand along the rows has rows that are alike.
  bool go_backward(const Op& op) {
    for (size_t r = 0; r < op.outputs.size(); ++r) {
      const AxisState wanted = rows_[op.outputs[r].index].state;
      if (!wanted.is(Kind::S)) continue;
      const auto settled = settle_for(OpView(module_, body_, op), axis_, arriving(op), 0, r, wanted);
      if (!settled) return op.kind == OpKind::Expand && repeats_along(op, wanted.dim);
      for (size_t i = 0; i < op.inputs.size(); ++i)
        if (op.inputs[i] && !put(op.inputs[i], settled->operands[i][0])) return false;
    }
    return true;
  }

  bool repeats_along(const Op& op, int dim) const {
    const TensorType &from = body_.type(op.inputs[0]), &to = body_.type(op.outputs[0]);
    const int at = dim - (to.ndim() - from.ndim());
    return at < 0 || from.dims()[static_cast<size_t>(at)] == 1;
  }

  std::vector<Layout> arriving(const Op& op) const {
    std::vector<Layout> layouts(op.inputs.size());
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (op.inputs[i]) layouts[i].set(0, rows_[op.inputs[i].index].state);
    return layouts;
  }

  /// False where the value has other rows, or must be whole, or where each row would lie in several pieces. A slice
  /// over ranks may be a digit of an index, but the rows of a thread must be consecutive.
  bool put(ValueId v, AxisState state) {
    ValueRows& own = rows_[v.index];
    if (own == ValueRows{state}) return true;
    if (!own.state.is(Kind::R)) return false;
    if (!are_all(v, state)) return false;
    own = {state};
    is_changed_ = true;
    return true;
  }

  const Module& module_;
  const Graph& body_;
  const Length count_;
  const Mesh axis_;  // on which slices at the bound of the count are rows
  BodyRows rows_;
  bool is_changed_ = false;
};

}  // namespace

std::optional<BodyRows> rows_of_body(const Module& module, const Graph& body, const Length& count, BodyRows known) {
  return RowFinder(module, body, count, std::move(known)).run();
}

}  // namespace weftc
