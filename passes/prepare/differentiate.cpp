// Reverse-mode differentiation: each Gradient is replaced by ops that go from its y back to its xs, by the rules in the
// records of the ops on the way (ir/ops/gradient.h).
//
//   %y = Mul(%a, %b), %da = Gradient(%a, %y) {xs = ["a"], y = "y"}   ->   %da = Mul(%g, %b),  %g being ones
//
// An op without a rule is replaced by its parts first. What goes back through node N comes from a node N.grad of its
// own, so that the name N in a schedule means what it means in the model; the derivative by value V is V.grad.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/base/check.h"
#include "ir/ops/gradient.h"
#include "passes/passes.h"
#include "passes/prepare/replace_by_parts.h"

namespace weftc {

namespace {

/// Summed over the dimensions along which an operand of these dims was broadcast.
Term summed_to(const Term& g, const Dims& dims) {
  const size_t more = g.dims().size() - dims.size();
  std::vector<int64_t> axes;
  for (size_t d = 0; d < g.dims().size(); ++d)
    if (d < more || (dims[d - more] == 1 && g.dims()[d] != 1)) axes.push_back(static_cast<int64_t>(d));
  if (axes.empty()) return g;
  // Where only leading dimensions go, the sum is the operand's derivative itself, which layouts know by name.
  if (axes.size() == more) return g.reduce(OpKind::ReduceSum, axes, false);
  return g.reduce(OpKind::ReduceSum, axes, true).reshape(dims);
}

/// One Gradient op: what it is about, and the derivatives by values as far as they are known.
class Backward {
 public:
  Backward(Module& module, OpId gradient, Diags& diags)
      : module_(module), graph_(module.graph), gradient_(gradient), diags_(diags) {
    const Op& op = graph_.op(gradient);
    ends_.insert(op.inputs.begin(), op.inputs.begin() + static_cast<long>(op.texts("xs").size()));
  }
  void run();

 private:
  void mark_way(OpId first, OpId end);
  void seed();
  bool is_passed(OpId id) const;
  bool has_rule(OpId id) const;
  OpId by_parts(OpId id);
  OpId with_kept_results(OpId id);
  bool back_through(OpId id);
  bool refuse(OpId id, const char* why) const;
  void add(ValueId value, ValueId derivative, const Op& like);
  void name_derivatives(OpId id);
  std::string like_state(const std::string& name) const;
  bool has_all_derivatives();
  void hand_over();
  bool is_made_here(ValueId value) const { return graph_.producer(value).index >= first_made_; }
  Op backward_of(const Op& op);

  Module& module_;
  Graph& graph_;
  OpId gradient_;
  Diags& diags_;
  std::unordered_set<ValueId> ends_;                // the xs
  std::unordered_set<ValueId> on_way_;              // what depends on the xs
  std::unordered_map<ValueId, ValueId> derived_;    // the derivative by each value, as far as it is summed up
  std::unordered_map<uint32_t, OriginId> origins_;  // by a node's: that of its way back
  std::unordered_set<ValueId> named_;
  size_t first_made_ = 0;
};

/// What an op on the way back through this one is like.
Op Backward::backward_of(const Op& op) {
  Op like = op;
  like.name += ".grad";
  for (OriginId& origin : like.origins) {
    const auto [at, is_new] =
        origins_.try_emplace(origin.index, OriginId{static_cast<uint32_t>(module_.origins.size())});
    if (is_new) {
      Origin back = module_.origins[origin.index];
      back.name += ".grad";
      module_.origins.push_back(std::move(back));
    }
    origin = at->second;
  }
  std::ranges::sort(like.origins);
  return like;
}

/// Marks what depends on the xs, through values that have derivatives.
void Backward::mark_way(OpId first, OpId end) {
  for (OpId id = first; !(id == end); id = graph_.next(id)) {
    const Op& op = graph_.op(id);
    if (std::ranges::none_of(op.inputs, [&](ValueId v) { return v && on_way_.contains(v); })) continue;
    for (const ValueId output : op.outputs)
      if (is_float(graph_.type(output).dtype)) on_way_.insert(output);
  }
}

void Backward::seed() {
  const Op like = backward_of(graph_.op(gradient_));
  const ValueId y = like.inputs.back();
  Builder build(module_, graph_, gradient_, like);
  derived_.emplace(y, Term(build, y).scalar(1).expand(build.dims(y)).value());
}

/// True if a derivative has to go back through the op.
bool Backward::is_passed(OpId id) const {
  return std::ranges::any_of(graph_.op(id).outputs, [&](ValueId v) {
    return derived_.contains(v) && on_way_.contains(v) && !ends_.contains(v);
  });
}

/// A rule is about the primitive form where there is one, and about the first result: where others have derivatives,
/// the parts are asked.
bool Backward::has_rule(OpId id) const {
  const Op& op = graph_.op(id);
  const OpDef& def = op_def(op);
  const bool is_of_first =
      std::none_of(op.outputs.begin() + 1, op.outputs.end(), [&](ValueId v) { return derived_.contains(v); });
  return def.gradient && is_of_first && (!def.is_primitive || def.is_primitive(OpView(module_, graph_, op)));
}

/// Replaces the op by its parts, to which its derivatives belong now: the last op in front of what followed it, none
/// after reporting.
OpId Backward::by_parts(OpId id) {
  const Op whole = graph_.op(id);
  const OpId before = graph_.previous(id), behind = graph_.next(id);
  const std::vector<ValueId> parts = replace_by_parts(module_, graph_, id, diags_);
  if (parts.empty()) return {};
  mark_way(before ? graph_.next(before) : graph_.first(), behind);
  for (size_t r = 0; r < whole.outputs.size(); ++r)
    if (const auto derivative = derived_.extract(whole.outputs[r]); derivative && parts[r]) {
      if (ends_.erase(whole.outputs[r])) ends_.insert(parts[r]);
      add(parts[r], derivative.mapped(), backward_of(whole));
    }
  return graph_.previous(behind);
}

/// The op with all the results that its rule reads.
OpId Backward::with_kept_results(OpId id) {
  const Op op = graph_.op(id);
  const size_t kept = static_cast<size_t>(op_def(op).kept_results);
  if (op.outputs.size() >= kept) return id;
  NewOp wider = copy_of(op);
  wider.inputs = op.inputs;
  wider.results.resize(kept);
  const OpId made = graph_.add(std::move(wider), id);
  WEFT_CHECK(infer_op(module_, graph_, made, nullptr), "an op has no more results than the model reads");
  for (size_t r = 0; r < op.outputs.size(); ++r) {
    const ValueId before = op.outputs[r], now = graph_.op(made).outputs[r];
    const std::string name = graph_.value(before).name;
    graph_.replace_uses(before, now);
    graph_.rename(before, name + "/whole");
    graph_.rename(now, name);
    if (on_way_.contains(before)) on_way_.insert(now);
    if (const auto derivative = derived_.extract(before)) derived_.emplace(now, derivative.mapped());
  }
  graph_.erase(id);
  graph_.rename_op(made, op.name);
  return made;
}

/// False after reporting what keeps the op from being differentiated, and for which of the xs.
bool Backward::refuse(OpId id, const char* why) const {
  const Op& op = graph_.op(id);
  diags_.error("gradient-unsupported", module_.loc(op), "{} the gradient of {} ('{}')", why, op_def(op).name, op.name);
  return false;
}

void Backward::add(ValueId value, ValueId derivative, const Op& like) {
  Builder build(module_, graph_, gradient_, like);
  const Term whole = summed_to(Term(build, derivative), build.dims(value));
  const auto [at, is_first] = derived_.emplace(value, whole.value());
  if (!is_first) at->second = (Term(build, at->second) + whole).value();
}

/// Distributes the derivative by an op's result over its operands; false after reporting.
bool Backward::back_through(OpId id) {
  const Op op = graph_.op(id);
  const auto is_fixed = [&](ValueId v) { return !v || is_static(graph_.type(v).shape); };
  if (!std::ranges::all_of(op.inputs, is_fixed) || !std::ranges::all_of(op.outputs, is_fixed))
    return refuse(id, "a request decides lengths of what stands in");
  const Op like = backward_of(op);
  Builder build(module_, graph_, gradient_, like);
  const OpView view(module_, graph_, op, &diags_);
  const Derivatives derivatives = op_def(op).gradient({build, view, Term(build, derived_.at(op.outputs[0]))});
  for (size_t i = 0; i < std::min(derivatives.size(), op.inputs.size()); ++i)
    if (derivatives[i] && on_way_.contains(op.inputs[i])) add(op.inputs[i], derivatives[i]->value(), like);
  return true;
}

/// All readers of the op's results have been passed: their derivatives are complete.
void Backward::name_derivatives(OpId id) {
  for (const ValueId value : graph_.op(id).outputs) {
    const auto derivative = derived_.find(value);
    if (derivative == derived_.end() || !is_made_here(derivative->second)) continue;
    const std::string name = graph_.value(value).name + ".grad";
    if (!named_.insert(derivative->second).second || graph_.find_value(name)) continue;
    graph_.rename(derivative->second, name);
    module_.primals[name] = graph_.value(value).name;
  }
}

/// What an optimizer keeps of a parameter lies where its derivative is read; of another value, itself.
std::string Backward::like_state(const std::string& name) const {
  for (const State& state : module_.states)
    if (state.of == name) return state.input;
  return name;
}

/// A parameter whose every way to the loss is cut would never change: false after reporting it with the op that cuts
/// one.
bool Backward::has_all_derivatives() {
  const Op& op = graph_.op(gradient_);
  if (!module_.training || module_.training->loss != op.text("y")) return true;
  for (size_t i = 0; i < op.texts("xs").size(); ++i) {
    if (derived_.contains(op.inputs[i])) continue;
    const std::string name = graph_.value(op.inputs[i]).name;
    std::string readers;
    for (const Use& use : graph_.value(op.inputs[i]).uses)
      if (use.op && !(use.op == gradient_) && readers.empty())
        readers = format(": {} ('{}') has no derivative, or nothing of what it makes", op_def(graph_.op(use.op)).name,
                         graph_.op(use.op).name);
    diags_.error("train-no-path", module_.loc(op), "no derivative of the loss by parameter '{}'{}; freeze it",
                 printable(name), readers);
  }
  return diags_.ok();
}

/// Whoever reads the Gradient reads what was made; zeros where y does not depend on an x.
void Backward::hand_over() {
  const Op op = graph_.op(gradient_);
  const Op like = backward_of(op);
  Builder build(module_, graph_, gradient_, like);
  for (size_t r = 0; r < op.outputs.size(); ++r) {
    const ValueId x = op.inputs[r];
    const auto found = derived_.find(x);
    const ValueId made =
        found != derived_.end() ? found->second : Term(build, x).scalar(0).expand(build.dims(x)).value();
    const std::string name = graph_.value(op.outputs[r]).name;
    graph_.rename(op.outputs[r], name + "/whole");
    if (is_made_here(made)) graph_.rename(made, name), module_.primals[name] = like_state(graph_.value(x).name);
    graph_.replace_uses(op.outputs[r], made);
  }
  graph_.erase(gradient_);
}

void Backward::run() {
  first_made_ = graph_.op_capacity();
  on_way_ = ends_;
  mark_way(graph_.first(), gradient_);
  OpId id = graph_.previous(gradient_);
  seed();
  while (id) {
    name_derivatives(id);
    if (is_passed(id) && has_rule(id)) {
      id = with_kept_results(id);
      if (!back_through(id)) return;
    } else if (is_passed(id)) {
      if (!decomposes(OpView(module_, graph_, graph_.op(id)))) {
        refuse(id, "there is no rule for");
        return;
      }
      id = by_parts(id);
      if (!id) return;
      continue;
    }
    id = graph_.previous(id);
  }
  if (has_all_derivatives()) hand_over();
}

}  // namespace

void differentiate(Module& module, const Env& env) {
  for (OpId id = module.graph.first(); id && env.diags.ok();) {
    const OpId next = module.graph.next(id);
    if (module.graph.op(id).kind == OpKind::Gradient) Backward(module, id, env.diags).run();
    id = next;
  }
}

}  // namespace weftc
