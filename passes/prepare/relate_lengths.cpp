// where the condition holds, else 0; nothing where it can be computed only inside the region.
//
//   %m = Mul(%x, %y) : f32[seq<=8]   with %y : f32[total<=8]     ->     relation seq = total by "node 'scale' (Mul)"
//
// The program checks each request for the relation, so that later passes may treat the two as one length. For an op in
// a branch or a loop, the check applies where that is run: a length of 1 or 0 says whether it is.
//
//   If(%c) { Mul(%x, %y) }     ->     %g = NameLength(Cast(%c)),  relation seq = total where g
//
// A branch that cannot be run is refused by a relation of that length alone: g = 1 where 1 - g, if it is the other one.
//
// For a branch or loop inside of another one, both conditions must hold: the inner condition is computed once more
// outside, if a few pointwise ops suffice. An inner condition that only the outer region can compute counts as true.
#include "passes/prepare/relate_lengths.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <tuple>

#include "ir/builder.h"
#include "ir/ops/step_loop.h"
#include "ir/shape_arithmetic.h"
#include "ir/tied_extents.h"
#include "passes/passes.h"
#include "passes/prepare/refused_branch.h"

namespace weftc {

namespace {

/// True if `a` implies `b`; an equation may be turned around.
bool implies(const LengthRelation& a, const LengthRelation& b) {
  if (a.may_be_less != b.may_be_less || !(a.where == 1 || a.where == b.where)) return false;
  const Length one = a.right - a.left, other = b.right - b.left;
  return one == other || (!a.may_be_less && one == Length(0) - other);
}

/// A graph of the model, and the op whose region it is.
struct Scope {
  const Graph& graph;
  const Scope* outer = nullptr;  // null: the model's graph
  const Op* owner = nullptr;
};

/// The condition under which a region runs: the value is true (not 0, of a count above 0), or false in the other
/// branch.
struct Condition {
  const Scope* scope = nullptr;
  ValueId value;
  bool is_count = false, holds = true;
};

/// A demand of an op, which applies where the conditions hold and `known` is not 0.
struct Demand {
  LengthRelation relation;
  std::vector<Condition> conditions;
  Length known = 1;
  bool is_refusal = false;  // the region must not be run: the relation only gives the reason
};
using Demands = std::vector<Demand>;

/// The operand of the scope's owner that a parameter stands for in each trip; invalid where it changes or is no
/// parameter.
ValueId operand_of(const Scope& scope, ValueId value) {
  const std::vector<ValueId>& parameters = scope.graph.inputs();
  const auto at = std::ranges::find(parameters, value);
  if (at == parameters.end()) return {};
  const auto p = static_cast<size_t>(at - parameters.begin());
  const bool is_loop = scope.owner->kind == OpKind::Loop;
  if (is_loop && p < 2 + static_cast<size_t>(scope.owner->integer_or("carried", 0))) return {};
  return scope.owner->inputs[is_loop ? p : p + 1];
}

/// Inserts ops before the outermost op that compute values of its regions.
class ConditionBuilder {
 public:
  explicit ConditionBuilder(Builder& build) : build_(build) {}

  std::optional<Length> length(const Condition& condition) {
    const auto key = std::tuple(condition.scope, condition.value.index, condition.is_count);
    const auto known = lengths_.find(key);
    const std::optional<Length> truth = known == lengths_.end() ? made(condition) : known->second;
    lengths_.insert_or_assign(key, truth);
    return !truth || condition.holds ? truth : std::optional(Length(1) - *truth);
  }

 private:
  std::optional<Length> made(const Condition& condition) {
    int left = kMostOps;
    ValueId value = outside(*condition.scope, condition.value, left);
    if (!value) return {};
    if (condition.is_count) value = build_.op(OpKind::Greater, {value, build_.scalar(value, 0)});
    const ValueId number = build_.cast(value, DType::I64);
    return length_of(build_.counted_extent(build_.dims(number).empty() ? number : build_.reshape(number, {}), 1));
  }

  /// The value computed in the model's graph, by `left` ops at most; invalid where that is impossible.
  ValueId outside(const Scope& scope, ValueId value, int& left) {
    if (!scope.outer) return value;
    if (const ValueId operand = operand_of(scope, value)) return outside(*scope.outer, operand, left);
    const OpId producer = scope.graph.producer(value);
    if (!producer || --left < 0) return {};
    const Op& op = scope.graph.op(producer);
    const bool is_simple = op.kind == OpKind::Constant || op.kind == OpKind::LengthOf || op.kind == OpKind::Reshape;
    if (op.outputs.size() != 1 || !(is_simple || category(op) == Category::Pointwise)) return {};
    std::vector<ValueId> inputs;
    for (const ValueId input : op.inputs)
      if (!inputs.emplace_back(input ? outside(scope, input, left) : ValueId{}) && input) return {};
    return build_.op(op.kind, inputs, op.attrs);
  }

  static constexpr int kMostOps = 8;  // a condition is a number, which takes few
  Builder& build_;
  std::map<std::tuple<const Scope*, uint32_t, bool>, std::optional<Length>> lengths_;
};

using Relations = std::vector<LengthRelation>;

/// Where the body of a Loop runs: it makes a trip.
void add_trips(const OpView& loop, const Scope& scope, Demand& where) {
  const std::vector<ValueId>& inputs = loop.op().inputs;
  if (const std::optional<Length> trips = inputs[0] ? trip_count(loop) : std::optional<Length>(1); !trips)
    where.conditions.push_back({&scope, inputs[0], true});
  else if (trips->is_constant())
    where.known = where.known * (trips->constant() > 0);
  else if (!scope.outer || is_given(loop.module(), *trips))
    where.known = where.known * *trips;
  if (!inputs[1]) return;
  if (const std::optional<Tensor> goes_on = loop.known(1))
    where.known = where.known * (goes_on->int_at(0) != 0);
  else
    where.conditions.push_back({&scope, inputs[1]});
}

class RelationCollector {
 public:
  /// `is_before_parts`: before decomposition, collects the demands of composite ops that their records state, and of
  /// ops that are read only for their shapes, which the program does not compute.
  RelationCollector(Module& module, Diags& diags, bool is_before_parts)
      : module_(module), diags_(diags), is_before_parts_(is_before_parts) {}

  void run() {
    Relations relations;
    for_each_op(module_.graph, [&](const OpView& op) { relate_op(op, relations); });
    for (LengthRelation& relation : relations) keep(std::move(relation));
    for (OpId id : module_.graph.order())
      if (!module_.graph.op(id).regions.empty()) relate_regions(id);
  }

 private:
  bool speaks_for_itself(const OpView& op) const;
  void relate_op(const OpView& op, Relations& relations) const;
  void for_each_op(const Graph& graph, const std::function<void(const OpView&)>& use) const;
  void relate_region(const Scope& scope, const Demand& where, Demands& demands);
  void relate_regions_of(const OpView& op, const Scope& scope, const Demand& where, Demands& demands);
  void refuse(const OpView& op, const Scope& scope, const Demand& where, const RefusedBranch& branch, Demands& demands);
  void relate_regions(OpId id);
  void keep_demand(Demand demand, ConditionBuilder& conditions);
  void keep_refusal(const Demand& demand, ConditionBuilder& conditions);
  bool is_known(const LengthRelation& relation) const {
    return std::ranges::any_of(module_.relations,
                               [&](const LengthRelation& known) { return implies(known, relation); });
  }
  void keep(LengthRelation relation) {
    if (!is_known(relation)) module_.relations.push_back(std::move(relation));
  }

  Module& module_;
  Diags& diags_;
  const bool is_before_parts_;
  std::deque<Scope> scopes_;  // of the op whose regions are related; conditions refer to them
};

/// False where the parts of an op demand more, or the same again: a demand in a region gets its condition only once.
bool RelationCollector::speaks_for_itself(const OpView& op) const {
  if (op_def(op.op()).relate && category(op.op()) == Category::Composite) return true;
  return &op.graph() == &module_.graph && (op_def(op.op()).relate || !decomposes(op));
}

/// Adds the demands of an op; reports those that no request could keep.
void RelationCollector::relate_op(const OpView& op, Relations& relations) const {
  if (is_before_parts_ && !speaks_for_itself(op)) return;
  for (LengthRelation& relation : length_relations(op)) {
    const Length room = relation.right - relation.left;
    if (room.high() < 0 || (room.low() > 0 && !relation.may_be_less))
      op.fail("lengths-differ", "length {} cannot be {}{}", relation.left.text(),
              relation.may_be_less ? "at most " : "", relation.right.text());
    relation.what = node_text(module_, op.op());
    relations.push_back(std::move(relation));
  }
}

/// Views of the ops that see the graph's shape arithmetic.
void RelationCollector::for_each_op(const Graph& graph, const std::function<void(const OpView&)>& use) const {
  ShapeValues shapes;
  for (OpId id = graph.first(); id; id = graph.next(id)) {
    const OpView op(module_, graph, graph.op(id), &diags_, &shapes);
    const std::optional<std::vector<std::vector<Length>>> values = shape_values(op);
    for (size_t r = 0; values && r < values->size(); ++r) shapes.set(op.op().outputs[r], (*values)[r]);
    use(op);
  }
}

/// Collects the demands of the ops of a region, and of the regions inside it.
void RelationCollector::relate_region(const Scope& scope, const Demand& where, Demands& demands) {
  for_each_op(scope.graph, [&](const OpView& op) {
    Relations relations;
    relate_op(op, relations);
    for (LengthRelation& relation : relations)
      if (!is_known(relation)) demands.push_back({std::move(relation), where.conditions, where.known});
    if (!op.op().regions.empty()) relate_regions_of(op, scope, where, demands);
  });
}

void RelationCollector::relate_regions_of(const OpView& op, const Scope& scope, const Demand& where, Demands& demands) {
  for (size_t r = 0; r < op.op().regions.size(); ++r) {
    Demand inside = where;
    if (op.op().kind == OpKind::Loop)
      add_trips(op, scope, inside);
    else if (op.op().kind == OpKind::If)
      inside.conditions.push_back({&scope, op.op().inputs[0], false, r == 0});
    scopes_.push_back({op.op().regions[r], &scope, &op.op()});
    relate_region(scopes_.back(), inside, demands);
  }
  if (const std::optional<RefusedBranch> branch = refused_branch(op.op()); branch && is_before_parts_)
    refuse(op, scope, where, *branch, demands);
}

void RelationCollector::refuse(const OpView& op, const Scope& scope, const Demand& where, const RefusedBranch& branch,
                               Demands& demands) {
  Demand inside = where;
  inside.conditions.push_back({&scope, op.op().inputs[0], false, branch.is_then});
  inside.relation.what = branch.why;
  inside.is_refusal = true;
  demands.push_back(std::move(inside));
}

void RelationCollector::keep_demand(Demand demand, ConditionBuilder& conditions) {
  demand.relation.where = demand.known;
  for (const Condition& condition : demand.conditions)
    demand.relation.where = demand.relation.where * conditions.length(condition).value_or(1);
  if (!(demand.relation.where == 0)) keep(std::move(demand.relation));
}

/// An error where only the region around knows whether the branch is taken.
void RelationCollector::keep_refusal(const Demand& demand, ConditionBuilder& conditions) {
  Length taken = demand.known;
  for (const Condition& condition : demand.conditions) {
    const std::optional<Length> holds = conditions.length(condition);
    if (!holds) {
      diags_.error("branch-untyped-unsupported", Loc::in_file(module_.file), "{}", demand.relation.what)
          .note(Loc::in_file(module_.file), "whether this is run is known inside of a loop or branch only");
      return;
    }
    taken = taken * *holds;
  }
  const bool is_negated = as_name(Length(1) - taken);
  if (!(taken == 0))
    keep({demand.relation.what, is_negated ? Length(1) - taken : taken, is_negated ? 1 : 0, false, taken});
}

/// Collects the demands of the regions of an If or a Loop in the model's graph.
void RelationCollector::relate_regions(OpId id) {
  const Op op = module_.graph.op(id);
  scopes_.clear();
  Demands demands;
  scopes_.push_back({module_.graph});
  relate_regions_of(OpView(module_, module_.graph, op, &diags_), scopes_.back(), {}, demands);
  Builder build(module_, module_.graph, id, op);
  ConditionBuilder conditions(build);
  for (Demand& demand : demands) {
    if (demand.is_refusal)
      keep_refusal(demand, conditions);
    else
      keep_demand(std::move(demand), conditions);
  }
}

}  // namespace

std::string node_text(const Module& module, const Op& op) {
  if (op.origins.empty()) return format("'{}' ({})", op.name, op_def(op).name);
  const Origin& origin = module.origins[op.origins[0].index];
  return format("node '{}' ({})", origin.name, origin.op_type);
}

void relate_nodes(Module& module, Diags& diags) { RelationCollector(module, diags, true).run(); }

void relate_lengths(Module& module, const Env& env) { RelationCollector(module, env.diags, false).run(); }

}  // namespace weftc
