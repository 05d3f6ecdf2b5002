// Visits the ops in reverse order. A value's readers all precede its producer in that order, so its derivative is
// complete when the producer is reached. The derivative is then distributed over the producer's operands. An op without
// a rule is replaced by its parts first.
#include "passes/prepare/backward.h"

#include <algorithm>

#include "ir/base/check.h"
#include "passes/prepare/replace_by_parts.h"

namespace weftc {

/// Summed over the dimensions along which an operand of these dims was broadcast.
static Term summed_to(const Term& g, const Dims& dims) {
  const size_t more = g.dims().size() - dims.size();
  std::vector<int64_t> axes;
  for (size_t d = 0; d < g.dims().size(); ++d)
    if (d < more || (dims[d - more] == 1 && g.dims()[d] != 1)) axes.push_back(static_cast<int64_t>(d));
  if (axes.empty()) return g;
  // Where only leading dimensions go, the sum is the operand's derivative itself, which layouts know by name.
  if (axes.size() == more) return g.reduce(OpKind::ReduceSum, axes, false);
  return g.reduce(OpKind::ReduceSum, axes, true).reshape(dims);
}

OriginId BackwardOrigins::of(OriginId origin) {
  const auto [at, is_new] = backs_.try_emplace(origin.index, OriginId{static_cast<uint32_t>(module_.origins.size())});
  if (!is_new) return at->second;
  const OriginId made = at->second;
  Origin back = module_.origins[origin.index];
  back.name += ".grad";
  back.phase = Phase::Backward;
  back.of = origin;
  module_.origins.push_back(std::move(back));
  backs_.emplace(made.index, made);
  return made;
}

Backward::Backward(Module& module, Graph& graph, OpId after, const std::vector<ValueId>& xs, BackwardOrigins& origins,
                   Diags& diags)
    : module_(module),
      graph_(graph),
      after_(after),
      origins_(origins),
      diags_(diags),
      ends_(xs.begin(), xs.end()),
      on_way_(ends_),
      first_made_(graph.op_capacity()) {
  if (after)
    last_ = graph.previous(after);
  else if (const std::vector<OpId> order = graph.order(); !order.empty())
    last_ = order.back();
  mark_way(graph.first(), after);
}

/// The name of the value that a recomputed one copies.
static std::string first_name(std::string name) {
  if (const size_t at = name.find(kAgain); at != std::string::npos) name.erase(at, kAgain.size());
  return name;
}

Op Backward::backward_of(const Op& op) {
  Op like = op;
  like.name = first_name(op.name) + ".grad";
  for (OriginId& origin : like.origins) origin = origins_.of(origin);
  std::ranges::sort(like.origins);
  return like;
}

/// Marks values that depend on the xs, through values that have derivatives.
void Backward::mark_way(OpId first, OpId end) {
  for (OpId id = first; id && !(id == end); id = graph_.next(id)) {
    const Op& op = graph_.op(id);
    if (std::ranges::none_of(op.inputs, [&](ValueId v) { return v && on_way_.contains(v); })) continue;
    for (const ValueId output : op.outputs)
      if (is_float(graph_.type(output).dtype)) on_way_.insert(output);
  }
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

/// Replaces the op by its parts, and gives its derivatives to these. Returns the last of the new ops; invalid after
/// reporting.
OpId Backward::by_parts(OpId id) {
  const Op whole = graph_.op(id);
  const OpId before = graph_.previous(id), after = graph_.next(id);
  const std::vector<ValueId> parts = replace_by_parts(module_, graph_, id, diags_);
  if (parts.empty()) return {};
  mark_way(before ? graph_.next(before) : graph_.first(), after);
  for (size_t r = 0; r < whole.outputs.size(); ++r)
    if (const auto derivative = derived_.extract(whole.outputs[r]); derivative && parts[r]) {
      if (ends_.erase(whole.outputs[r])) ends_.insert(parts[r]);
      add(parts[r], derivative.mapped(), backward_of(whole));
    }
  return graph_.previous(after);
}

OpId Backward::widen(OpId id, NewOp wider) {
  const Op op = graph_.op(id);
  const OpId made = graph_.add(std::move(wider), id);
  WEFT_CHECK(infer_op(module_, graph_, made, nullptr), "an op has no more results than the model reads");
  for (size_t r = 0; r < op.outputs.size(); ++r) {
    const ValueId before = op.outputs[r], now = graph_.op(made).outputs[r];
    const std::string name = graph_.value(before).name;
    graph_.replace_uses(before, now);
    graph_.rename(before, name + "/whole");
    graph_.rename(now, name);
    if (on_way_.contains(before)) on_way_.insert(now);
    if (ends_.erase(before)) ends_.insert(now);
    if (const auto derivative = derived_.extract(before)) derived_.emplace(now, derivative.mapped());
  }
  graph_.erase(id);
  graph_.rename_op(made, op.name);
  return made;
}

/// The op with all the results that its rule reads.
OpId Backward::with_kept_results(OpId id) {
  const Op& op = graph_.op(id);
  const size_t kept = static_cast<size_t>(op_def(op).kept_results);
  if (op.outputs.size() >= kept) return id;
  NewOp wider = copy_of(op);
  wider.inputs = op.inputs;
  wider.results.resize(kept);
  return widen(id, std::move(wider));
}

bool Backward::refuse(OpId id, const char* why) const {
  const Op& op = graph_.op(id);
  diags_.error("gradient-unsupported", module_.loc(op), "{} the gradient of {} ('{}')", why, op_def(op).name, op.name);
  return false;
}

void Backward::add(ValueId value, ValueId derivative, const Op& like) {
  Builder build(module_, graph_, after_, like);
  const Term whole = summed_to(Term(build, derivative), build.dims(value));
  const auto [at, is_first] = derived_.emplace(value, whole.value());
  if (!is_first) at->second = (Term(build, at->second) + whole).value();
}

ValueId Backward::derivative(ValueId value) const {
  const auto found = derived_.find(value);
  return found == derived_.end() ? ValueId{} : found->second;
}

/// Distributes the derivative by an op's result over its operands; false after reporting.
bool Backward::by_rule(OpId id) {
  const Op op = graph_.op(id);
  const Op like = backward_of(op);
  Builder build(module_, graph_, after_, like);
  const OpView view(module_, graph_, op, &diags_);
  const Derivatives derivatives = op_def(op).gradient({build, view, Term(build, derived_.at(op.outputs[0]))});
  for (size_t i = 0; i < std::min(derivatives.size(), op.inputs.size()); ++i)
    if (derivatives[i] && on_way_.contains(op.inputs[i])) add(op.inputs[i], derivatives[i]->value(), like);
  return diags_.ok();
}

/// All readers of the op's results have been passed: their derivatives are complete.
void Backward::name_derivatives(OpId id) {
  for (const ValueId value : graph_.op(id).outputs) {
    const auto derivative = derived_.find(value);
    if (derivative == derived_.end() || !is_made_here(derivative->second)) continue;
    const std::string name = first_name(graph_.value(value).name) + ".grad";
    if (!named_.insert(derivative->second).second || graph_.find_value(name)) continue;
    graph_.rename(derivative->second, name);
    if (&graph_ == &module_.graph) module_.primals[name] = graph_.value(value).name;
  }
}

/// Passes one op; returns the op before which the walk goes on, invalid after reporting.
OpId Backward::pass(OpId id) {
  const auto is_fixed = [&](ValueId v) { return !v || is_static(graph_.type(v).shape); };
  const Op& op = graph_.op(id);
  const bool has_regions = !op.regions.empty();
  if (!has_regions && !has_rule(id)) {
    refuse(id, "there is no rule for");
    return {};
  }
  if (!std::ranges::all_of(op.inputs, is_fixed) || !std::ranges::all_of(op.outputs, is_fixed)) {
    refuse(id, "a request decides lengths of what stands in");
    return {};
  }
  if (has_regions) return back_through_region(*this, id);
  id = with_kept_results(id);
  return by_rule(id) ? id : OpId{};
}

bool Backward::walk() {
  for (OpId id = last_; id;) {
    name_derivatives(id);
    if (!is_passed(id)) {
      id = graph_.previous(id);
      continue;
    }
    const Op& op = graph_.op(id);
    const bool has_parts = op.regions.empty() && !has_rule(id) && decomposes(OpView(module_, graph_, op));
    id = has_parts ? by_parts(id) : pass(id);
    if (!id) return false;
    if (!has_parts) id = graph_.previous(id);
  }
  return true;
}

}  // namespace weftc
