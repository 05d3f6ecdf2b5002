// The way back through ops that own graphs. The derivatives of a graph recompute its forward values where they need
// them.
//
//   y = If(c, x) { then, else }           dx = If(c, x, dy) { then again and back, else again and back }
//   y = Loop(T, , y0, w) { y -> y1 }      y, ys = Loop(T, , y0, w) { y -> y1, y }        the values before each trip
//                                         dy0, dw = Loop(T, , dy, 0, w, ys) { dy, dw ->  y = ys[T - 1 - i], y1 again,
//                                                                             by y, dw + by w }
//
// If each trip reads an element of a sequence, the derivative of the sequence is assembled from the derivatives of its
// elements.
#include <algorithm>

#include "ir/ops/step_loop.h"
#include "passes/prepare/backward.h"
#include "passes/prepare/unroll_loop.h"

namespace weftc {

namespace {

/// Elements that a trip reads of a parameter, by their indices along the first dimension.
struct ElementRead {
  size_t parameter;
  ValueId number, element;
  int64_t is_inside;  // as Gather has it
};

/// A graph on the way back. Parameters: first the region's own, then the derivatives by its results. Outputs: the
/// derivatives by parameters and by elements that were read.
struct Draft {
  Graph graph;
  std::vector<size_t> parameters;  // those by which there is a derivative, in the order of the outputs
  std::vector<ElementRead> reads;  // then for each of these its number and the derivative by the element

  /// True if something reads the parameter.
  bool needs(size_t parameter) const { return !graph.value(graph.inputs()[parameter]).uses.empty(); }
};

/// The derivatives that a walk through a region has to find.
struct Wanted {
  std::vector<size_t> parameters;  // by which derivatives are wanted
  std::vector<size_t> results;     // of the region, by which they are known
  std::vector<size_t> sequences;   // parameters whose elements are differentiated separately
};

/// Gives recomputed ops names and origins of their own.
void rename_again(Backward& around, Graph& graph) {
  for (const OpId id : graph.order()) {
    for (Graph& region : graph.edit(id).regions) rename_again(around, region);
    const Op like = around.backward_of(graph.op(id));
    graph.edit(id).origins = like.origins;
    if (graph.op(id).kind == OpKind::Input) continue;
    graph.rename_op(id, graph.op(id).name + std::string(kAgain));
    for (const ValueId v : graph.op(id).outputs) graph.rename(v, graph.value(v).name + std::string(kAgain));
  }
}

void remove_dead(Graph& graph) {
  const std::vector<OpId> order = graph.order();
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    const auto is_unread = [&](ValueId v) { return graph.value(v).uses.empty(); };
    if (graph.op(*id).kind != OpKind::Input && std::ranges::all_of(graph.op(*id).outputs, is_unread)) graph.erase(*id);
  }
}

/// Elements that are read of sequences by numbers along the first dimension.
std::vector<ElementRead> element_reads(const Graph& graph, const std::vector<size_t>& sequences) {
  std::vector<ElementRead> reads;
  for (const OpId id : graph.order()) {
    const Op& op = graph.op(id);
    if (op.kind != OpKind::Gather || int_of(op, "axis") != 0) continue;
    for (const size_t p : sequences)
      if (graph.inputs()[p] == op.inputs[0])
        reads.push_back({p, op.inputs[1], op.outputs[0], op.integer_or("inside", 0)});
  }
  return reads;
}

/// Nothing after reporting.
std::optional<Draft> draft_of(Backward& around, const Op& op, const Graph& region, const Wanted& wanted) {
  Draft draft;
  const Op like = around.backward_of(op);
  Builder build(around.module(), draft.graph, {}, like);
  std::vector<ValueId> parameters, xs;
  for (const ValueId p : region.inputs()) parameters.push_back(build.parameter(region.value(p).name, region.type(p)));
  const std::vector<ValueId> results = inline_region(draft.graph, region, parameters);
  rename_again(around, draft.graph);
  for (const size_t p : wanted.parameters) xs.push_back(parameters[p]);
  draft.reads = element_reads(draft.graph, wanted.sequences);
  for (const ElementRead& read : draft.reads) xs.push_back(read.element);
  std::vector<ValueId> known;
  for (const size_t r : wanted.results) known.push_back(build.parameter("derivative", draft.graph.type(results[r])));

  Backward back(around.module(), draft.graph, {}, xs, around.origins(), around.diags());
  for (size_t k = 0; k < known.size(); ++k) back.add(results[wanted.results[k]], known[k], like);
  if (!back.walk()) return {};
  for (const size_t p : wanted.parameters)
    if (const ValueId derivative = back.derivative(parameters[p])) {
      draft.parameters.push_back(p);
      draft.graph.add_output(derivative, "by_parameter");
    }
  std::erase_if(draft.reads, [&](const ElementRead& read) { return !back.derivative(read.element); });
  for (const ElementRead& read : draft.reads) {
    draft.graph.add_output(read.number, "number");
    draft.graph.add_output(back.derivative(read.element), "by_element");
  }
  remove_dead(draft.graph);
  return draft;
}

ValueId zeros_like(Builder& build, const TensorType& type) { return zeros(build, type.dtype, type.dims()); }

/// Writes a branch on the way back: it reads those parameters of the draft that some branch reads, so that all have the
/// same, and gives a derivative by each wanted parameter.
void add_branch(Builder inside, const Draft& draft, const Wanted& wanted, const std::vector<bool>& is_read) {
  const auto& parameters = draft.graph.inputs();
  std::vector<ValueId> arguments(parameters.size());
  for (size_t p = 0; p < parameters.size(); ++p)
    if (p >= is_read.size() || is_read[p]) arguments[p] = inside.parameter("operand", draft.graph.type(parameters[p]));
  const std::vector<ValueId> made = inline_region(inside.graph(), draft.graph, arguments);
  for (const size_t p : wanted.parameters) {
    const auto at = std::ranges::find(draft.parameters, p);
    const ValueId derivative = at != draft.parameters.end() ? made[static_cast<size_t>(at - draft.parameters.begin())]
                                                            : zeros_like(inside, draft.graph.type(parameters[p]));
    inside.graph().add_output(derivative, "derivative");
  }
}

/// Parameter p of a branch is operand 1 + p.
bool back_through_if(Backward& back, const Op& op) {
  Wanted wanted;
  for (size_t p = 0; p + 1 < op.inputs.size(); ++p)
    if (back.depends_on_xs(op.inputs[1 + p])) wanted.parameters.push_back(p);
  for (size_t r = 0; r < op.outputs.size(); ++r)
    if (back.derivative(op.outputs[r])) wanted.results.push_back(r);
  std::vector<Draft> drafts;
  for (const Graph& branch : op.regions) {
    std::optional<Draft> draft = draft_of(back, op, branch, wanted);
    if (!draft) return false;
    drafts.push_back(std::move(*draft));
  }
  std::vector<ValueId> operands{op.inputs[0]};
  std::vector<bool> is_read;
  for (size_t p = 0; p + 1 < op.inputs.size(); ++p) {
    is_read.push_back(std::ranges::any_of(drafts, [&](const Draft& draft) { return draft.needs(p); }));
    if (is_read[p]) operands.push_back(op.inputs[1 + p]);
  }
  for (const size_t r : wanted.results) operands.push_back(back.derivative(op.outputs[r]));

  const Op like = back.backward_of(op);
  Builder build(back.module(), back.graph(), back.after(), like);
  std::vector<Graph> branches(drafts.size());
  for (size_t b = 0; b < drafts.size(); ++b)
    add_branch(build.inside(branches[b], b == 0 ? "then" : "else"), drafts[b], wanted, is_read);
  const int count = static_cast<int>(wanted.parameters.size());
  const std::vector<ValueId> derivatives = build.region_op(OpKind::If, operands, {}, std::move(branches), count);
  for (size_t k = 0; k < derivatives.size(); ++k) back.add(op.inputs[1 + wanted.parameters[k]], derivatives[k], like);
  return true;
}

/// The way back through a Loop: parameter p of its body is operand p, from 2 on, and result r of it is output 1 + r of
/// the body.
class LoopBackward {
 public:
  LoopBackward(Backward& back, OpId id) : back_(back), id_(id), op_(back.graph().op(id)) {}
  /// The Loop that also returns the values that the way back reads, invalid after reporting.
  OpId run();

 private:
  bool is_carried(size_t parameter) const { return parameter < 2 + carried_; }
  bool is_legal();
  void find_wanted();
  std::vector<ValueId> keep_entries();
  void go_back(const std::vector<ValueId>& kept);
  void add_trip(StepLoop& loop, const std::vector<ValueId>& sums, const std::vector<ValueId>& arguments);
  std::vector<size_t> summed() const;

  Backward& back_;
  OpId id_;
  Op op_;  // a copy: ops move
  size_t carried_ = static_cast<size_t>(int_of(op_, "carried"));
  int64_t trips_ = 0;
  Wanted wanted_;
  std::optional<Draft> draft_;
};

bool LoopBackward::is_legal() {
  const OpView view(back_.module(), back_.graph(), op_);
  const std::optional<Length> trips = trip_count(view);
  if (!trips || !trips->is_constant() || !makes_all_trips(view))
    return back_.refuse(id_,
                        "a run decides how many trips there are, which leaves no room for what each has computed in");
  if (draws(op_.regions[0])) return back_.refuse(id_, "a trip draws random numbers, which are not drawn again in");
  trips_ = trips->constant();
  return true;
}

/// Finds what to differentiate. A carried value may depend on the xs from the second trip on, whatever its initial
/// value.
void LoopBackward::find_wanted() {
  const Graph& body = op_.regions[0];
  for (size_t p = 2; p < op_.inputs.size(); ++p)
    if (is_float(body.type(body.inputs()[p]).dtype) && (is_carried(p) || back_.depends_on_xs(op_.inputs[p]))) {
      wanted_.parameters.push_back(p);
      if (!is_carried(p)) wanted_.sequences.push_back(p);
    }
  for (size_t r = 0; r < op_.outputs.size(); ++r) {
    const bool is_wanted =
        r < carried_ ? is_float(body.type(body.inputs()[2 + r]).dtype) : bool(back_.derivative(op_.outputs[r]));
    if (is_wanted) wanted_.results.push_back(1 + r);
  }
}

/// Collects the carried values that the way back reads, as they are before each trip: by parameter, invalid for others.
std::vector<ValueId> LoopBackward::keep_entries() {
  NewOp wider = copy_of(op_);
  wider.inputs = op_.inputs;
  wider.regions = op_.regions;
  Graph& body = wider.regions[0];
  std::vector<size_t> kept;
  for (size_t p = 2; is_carried(p); ++p)
    if (draft_->needs(p)) kept.push_back(p);
  wider.result_names.assign(op_.outputs.size(), op_.name);
  for (const size_t p : kept) {
    const std::string name = body.value(body.inputs()[p]).name;
    wider.result_names.push_back(op_.name + "/" + name);
    body.add_output(body.inputs()[p], name);
  }
  wider.results.resize(op_.outputs.size() + kept.size());
  if (!kept.empty()) id_ = back_.widen(id_, std::move(wider));
  std::vector<ValueId> entries(op_.inputs.size());
  const size_t before = op_.outputs.size();
  op_ = back_.graph().op(id_);
  for (size_t k = 0; k < kept.size(); ++k) entries[kept[k]] = op_.outputs[before + k];
  return entries;
}

/// The captured values whose derivatives are summed up over the trips.
std::vector<size_t> LoopBackward::summed() const {
  std::vector<size_t> captured;
  for (const size_t p : wanted_.parameters) {
    const bool is_read =
        std::ranges::any_of(draft_->reads, [&](const ElementRead& read) { return read.parameter == p; });
    const bool is_whole = std::ranges::find(draft_->parameters, p) != draft_->parameters.end();
    if (!is_carried(p) && (is_read || is_whole)) captured.push_back(p);
  }
  return captured;
}

/// One trip back: first the derivatives by carried values, then the sums.
void LoopBackward::add_trip(StepLoop& loop, const std::vector<ValueId>& sums, const std::vector<ValueId>& arguments) {
  Builder& body = loop.body();
  const std::vector<ValueId> made = inline_region(body.graph(), draft_->graph, arguments);
  const auto by_parameter = [&](size_t p) -> ValueId {
    const auto at = std::ranges::find(draft_->parameters, p);
    return at != draft_->parameters.end() ? made[static_cast<size_t>(at - draft_->parameters.begin())] : ValueId{};
  };
  std::vector<ValueId> next;
  for (const size_t p : wanted_.parameters)
    if (is_carried(p)) {
      const ValueId derivative = by_parameter(p);
      next.push_back(derivative ? derivative : zeros_like(body, back_.graph().type(op_.inputs[p])));
    }
  const std::vector<size_t> captured = summed();
  for (size_t k = 0; k < captured.size(); ++k) {
    ValueId sum = sums[k];
    if (const ValueId derivative = by_parameter(captured[k])) sum = add(body, sum, derivative);
    for (size_t r = 0; r < draft_->reads.size(); ++r) {
      const ElementRead& read = draft_->reads[r];
      if (read.parameter != captured[k]) continue;
      const size_t at = draft_->parameters.size() + 2 * r;
      Dims numbers = body.dims(made[at]);
      numbers.push_back(1);
      sum = body.op(OpKind::ScatterND, {sum, body.reshape(made[at], numbers), made[at + 1]},
                    {{"inside", read.is_inside}, {"reduction", std::string("add")}});
    }
    next.push_back(sum);
  }
  loop.next(next);
}

void LoopBackward::go_back(const std::vector<ValueId>& kept) {
  const Op like = back_.backward_of(op_);
  Builder build(back_.module(), back_.graph(), back_.after(), like);
  const auto known = [&](size_t r) {
    const ValueId derivative = back_.derivative(op_.outputs[r]);
    return derivative ? derivative : zeros_like(build, build.type(op_.outputs[r]));
  };
  StepLoop loop(build, "back", build.constant(Tensor::scalar(DType::I64, static_cast<double>(trips_))));
  const Graph& draft = draft_->graph;
  std::vector<ValueId> arguments(draft.inputs().size()), sums;
  size_t seed = op_.regions[0].inputs().size();
  for (const size_t result : wanted_.results)
    if (result <= carried_) arguments[seed++] = loop.carry(known(result - 1));
  for (const size_t p : summed()) sums.push_back(loop.carry(zeros_like(build, build.type(op_.inputs[p]))));
  const ValueId last = loop.body().constant(Tensor::scalar(DType::I64, static_cast<double>(trips_ - 1)));
  const ValueId now = subtract(loop.body(), last, loop.iteration());
  const auto element = [&](ValueId all) { return element_at(loop.body(), loop.capture(all), now); };
  arguments[0] = now;
  arguments[1] = loop.condition();
  for (size_t p = 2; p < op_.inputs.size(); ++p)
    if (draft_->needs(p)) arguments[p] = is_carried(p) ? element(kept[p]) : loop.capture(op_.inputs[p]);
  for (const size_t result : wanted_.results)
    if (result > carried_) arguments[seed++] = element(known(result - 1));
  add_trip(loop, sums, arguments);

  const std::vector<ValueId> derivatives = loop.finish();
  size_t at = 0;
  for (const size_t p : wanted_.parameters)
    if (is_carried(p)) {
      if (back_.depends_on_xs(op_.inputs[p])) back_.add(op_.inputs[p], derivatives[at], like);
      ++at;
    }
  for (const size_t p : summed()) back_.add(op_.inputs[p], derivatives[at++], like);
}

OpId LoopBackward::run() {
  if (!is_legal()) return {};
  find_wanted();
  draft_ = draft_of(back_, op_, op_.regions[0], wanted_);
  if (!draft_) return {};
  go_back(keep_entries());
  return id_;
}

}  // namespace

OpId back_through_region(Backward& back, OpId id) {
  const Op op = back.graph().op(id);
  if (op.kind == OpKind::If) return back_through_if(back, op) ? id : OpId{};
  if (op.kind == OpKind::Loop) return LoopBackward(back, id).run();
  back.refuse(id, "there is no rule for");
  return {};
}

}  // namespace weftc
