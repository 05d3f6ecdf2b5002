// Judges a loop by its body. All carried values have one shape. Every op of the body computes an element of that shape
// from the same elements of its operands, or a scalar that is the same for all elements. A step may read row t of a
// captured value (or row c - t), and replace row t of a carried one.
//
//   y, ys = Loop(T, , x, zeros) { v = f(v, Gather(a, t));  ys = ScatterND(ys, t, v) }        one kernel
//   y     = Loop(T, , x)        { v = MatMul(v, w) }                                         a kernel a step
#include "passes/fusion/pointwise_loop.h"

#include <algorithm>

#include "ir/kernel/digits.h"
#include "ir/op_def.h"
#include "ir/ops/step_loop.h"

namespace weftc {

namespace {

class LoopJudge {
 public:
  LoopJudge(const Module& module, const Graph& graph, const Op& loop)
      : module_(module),
        graph_(graph),
        loop_(loop),
        body_(loop.regions[0]),
        carried_(static_cast<size_t>(loop.integer("carried"))) {}

  std::optional<PointwiseLoop> run(std::string& why) {
    if (is_pointwise()) return PointwiseLoop{collected_};
    why = why_;
    return {};
  }

 private:
  bool refuse(std::string why) {
    why_ = std::move(why);
    return false;
  }

  bool is_pointwise() {
    const OpView view(module_, graph_, loop_);
    if (!makes_all_trips(view)) return refuse("it may end early");
    if (has_lengths()) return refuse("a dimension has a run-time length");
    if (loop_.outputs.size() != carried_) return refuse("it collects elements");
    if (const std::optional<Tensor> trips = view.has(0) ? view.known(0) : std::nullopt) trips_ = trips->int_at(0);
    if (!view.has(0)) return refuse("it has no trip count");
    for (size_t i = 0; i < carried_; ++i) collected_.push_back(is_collected(i));
    return finds_shape() && carries_one_shape() && has_only_elements();
  }

  bool has_lengths() const {
    const std::vector<OpId> order = body_.order();
    return std::any_of(order.begin(), order.end(), [&](OpId id) {
      const std::vector<ValueId>& made = body_.op(id).outputs;
      return std::any_of(made.begin(), made.end(), [&](ValueId v) { return !is_static(body_.type(v).shape); });
    });
  }

  ValueId parameter(size_t carried) const { return body_.inputs()[2 + carried]; }
  ValueId next(size_t carried) const { return body_.outputs()[1 + carried].value; }
  bool is_parameter(ValueId v) const { return body_.producer_op(v).kind == OpKind::Input; }
  bool is_one(ValueId v) const { return body_.type(v).count() == 1; }

  /// True if `v` is the number of the step, as a scalar or a list of one.
  bool is_step(ValueId v) const {
    while (body_.producer_op(v).kind == OpKind::Reshape) v = body_.producer_op(v).inputs[0];
    return v == body_.inputs()[0];
  }

  /// A value of which each step replaces one row, and all steps together all rows.
  bool is_collected(size_t carried) const {
    const Op& op = body_.producer_op(next(carried));
    if (op.kind != OpKind::ScatterND || !(op.inputs[0] == parameter(carried)) || text_of(op, "reduction") != "none")
      return false;
    const Dims all = body_.type(op.inputs[0]).dims(), one = body_.type(op.inputs[2]).dims();
    return trips_ && all.front() == *trips_ && Dims(all.begin() + 1, all.end()) == one && is_step(op.inputs[1]) &&
           body_.value(parameter(carried)).uses.size() == 1 && body_.value(next(carried)).uses.size() == 1;
  }
  ValueId row(size_t carried) const { return body_.producer_op(next(carried)).inputs[2]; }

  /// The shape and layout of an element's space: that of a carried value, or of a row.
  bool finds_shape() {
    if (carried_ == 0) return refuse("it carries nothing");
    size_t first = 0;
    while (first + 1 < carried_ && collected_[first]) ++first;
    space_ = body_.type(collected_[first] ? row(first) : parameter(first));
    const Mesh mesh = module_.mesh(graph_, loop_.place);
    for (int d = 0; d < space_.ndim(); ++d) {
      if (is_ragged(space_.shape[static_cast<size_t>(d)], digits_of(space_.layout, d, mesh)))
        return refuse("its elements are not sliced alike on all ranks");
    }
    return true;
  }

  bool is_space(ValueId v) const {
    const TensorType& type = body_.type(v);
    return type.dims() == space_.dims() && type.layout == space_.layout;
  }

  bool carries_one_shape() {
    for (size_t i = 0; i < carried_; ++i) {
      const ValueId v = collected_[i] ? row(i) : parameter(i);
      if (!is_space(v)) return refuse("'" + body_.value(v).name + "' has another shape than what else is carried");
      const DType dtype = body_.type(v).dtype;
      if (!collected_[i] && is_float(dtype) && dtype_bytes(dtype) < 4)
        return refuse("'" + body_.value(v).name + "' is rounded to 16 bits or fewer in each step");
    }
    return true;
  }

  bool has_only_elements() {
    for (OpId id : body_.order()) {
      const Op& op = body_.op(id);
      if (!is_elementwise(op)) return refuse("'" + op.name + "' (" + op_def(op).name + ") is not element-wise");
    }
    return true;
  }

  /// An element of the space, or a scalar that all ranks have.
  bool is_element(ValueId v) const { return is_space(v) || (is_one(v) && body_.type(v).layout.is_replicated()); }
  bool are_elements(const std::vector<ValueId>& values) const {
    return std::all_of(values.begin(), values.end(), [&](ValueId v) { return !v || is_element(v); });
  }

  bool is_elementwise(const Op& op) const {
    switch (op.kind) {
      case OpKind::Input:
      case OpKind::Constant:  // judged where they are read
        return true;
      case OpKind::Gather:
        return reads_row(op);
      case OpKind::ScatterND:
        return writes_row(op);
      case OpKind::Reshape:
        return is_one(op.inputs[0]);
      case OpKind::Expand:
        return is_one(op.inputs[0]) && is_element(op.outputs[0]);
      default:
        return category(op) == Category::Pointwise && are_elements(op.inputs) && are_elements(op.outputs);
    }
  }

  /// Row t or c - t of a value from outside, within its bounds.
  bool reads_row(const Op& op) const {
    const bool is_outside = is_parameter(op.inputs[0]) || body_.producer_op(op.inputs[0]).kind == OpKind::Constant;
    if (!is_outside || is_carried(op.inputs[0]) || !is_element(op.outputs[0]) || !trips_) return false;
    const int64_t extent = body_.type(op.inputs[0]).dims()[static_cast<size_t>(op.integer("axis"))];
    if (is_step(op.inputs[1])) return *trips_ <= extent;
    const Op& index = body_.producer_op(op.inputs[1]);
    if (index.kind != OpKind::Sub || !is_step(index.inputs[1])) return false;
    const std::optional<Tensor> last = OpView(module_, body_, index).known(0);
    return last && last->size() == 1 && last->int_at(0) < extent && last->int_at(0) >= *trips_ - 1;
  }
  bool is_carried(ValueId v) const {
    for (size_t i = 0; i < carried_; ++i)
      if (parameter(i) == v) return true;
    return false;
  }
  bool writes_row(const Op& op) const {
    for (size_t i = 0; i < carried_; ++i)
      if (collected_[i] && next(i) == op.outputs[0]) return true;
    return false;
  }

  const Module& module_;
  const Graph& graph_;
  const Op& loop_;
  const Graph& body_;
  const size_t carried_;
  std::optional<int64_t> trips_;
  TensorType space_;
  std::vector<bool> collected_;
  std::string why_;
};

}  // namespace

std::optional<PointwiseLoop> pointwise_loop(const Module& module, const Graph& graph, OpId loop, std::string& why) {
  return LoopJudge(module, graph, graph.op(loop)).run(why);
}

}  // namespace weftc
