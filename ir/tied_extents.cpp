// Ties come from the factors of an op, each of which is one loop, or from the relations of its record.
#include "ir/tied_extents.h"

#include <algorithm>
#include <set>

#include "ir/named_lengths.h"

namespace weftc {

namespace {

struct TiedExtents {
  Extent left, right;
  bool is_summed = false;
};

/// Ties the dimensions of operands that one factor runs over. An extent of 1 may be broadcast. Type inference checks
/// whether two numbers fit.
std::vector<TiedExtents> ties_of_factors(const OpView& op) {
  const FactorRule rule = factor_rule(op);
  std::vector<const Extent*> first(rule.factors.size());
  std::vector<TiedExtents> ties;
  for (size_t i = 0; i < rule.inputs.size(); ++i)
    for (size_t d = 0; d < rule.inputs[i].size(); ++d) {
      const Extent& extent = op.type(static_cast<int>(i)).shape[d];
      if (rule.inputs[i][d] < 0 || is_one(extent)) continue;
      const auto factor = static_cast<size_t>(rule.inputs[i][d]);
      if (first[factor] && !first[factor]->is_run_time() && !extent.is_run_time()) continue;
      if (first[factor])
        ties.push_back({*first[factor], extent, rule.factors[factor].role == Factor::Role::Reduce});
      else
        first[factor] = &extent;
    }
  return ties;
}

/// True if a dimension of an operand has this length.
bool has_length(const OpView& op, const Length& length) {
  for (int i = 0; i < op.inputs(); ++i)
    for (const Extent& extent : op.has(i) ? op.type(i).shape : Shape{})
      if (length_of(extent) == length) return true;
  return false;
}

/// A length with the bound that operands have for it: their smallest or largest one.
Extent extent_in(const OpView& op, const Length& length, bool smallest) {
  if (length.is_constant()) return {length.constant(), {}};
  std::optional<int64_t> bound;
  for (int i = 0; i < op.inputs(); ++i)
    for (const Extent& extent : op.has(i) ? op.type(i).shape : Shape{})
      if (length_of(extent) == length)
        bound = !bound ? extent.bound : smallest ? std::min(*bound, extent.bound) : std::max(*bound, extent.bound);
  return run_time_extent(bound.value_or(length.high()), length);
}

/// Ties the two sides of an equation if an operand has the length with another bound than the others.
std::vector<TiedExtents> related_ties(const OpView& op) {
  std::vector<TiedExtents> ties;
  for (const LengthRelation& relation : op_def(op.op()).relate(op))
    if (!relation.may_be_less && (has_length(op, relation.left) || has_length(op, relation.right)))
      ties.push_back(
          {extent_in(op, relation.left, false), extent_in(op, relation.right, relation.left == relation.right)});
  return ties;
}

/// Whether the op itself has factors. A composite op has the factors of its parts, unless it is pointwise.
bool has_factors(const OpView& op) { return !decomposes(op) || category(op.op()) == Category::Pointwise; }

/// Whether each dimension of the results is one of operands that are broadcast to each other.
bool is_broadcast(const OpView& op) {
  return category(op.op()) == Category::Pointwise || category(op.op()) == Category::Contraction;
}

bool is_certain(const LengthRelation& relation) {
  const Length room = relation.right - relation.left;
  return room == 0 || (relation.may_be_less && room.low() >= 0);
}

}  // namespace

bool is_broadcast_to(const Shape& from, const Shape& to) {
  if (from.size() > to.size()) return false;
  const size_t before = to.size() - from.size();
  for (size_t d = 0; d < from.size(); ++d)
    if (!is_one(from[d]) && (is_one(to[before + d]) || !one_extent(from[d], to[before + d]))) return false;
  return true;
}

bool ties_operands(const OpView& op) { return op_def(op.op()).relate != nullptr || has_factors(op); }

std::vector<LengthRelation> length_relations(const OpView& op) {
  std::vector<LengthRelation> relations;
  if (const RelateFn relate = op_def(op.op()).relate)
    relations = relate(op);
  else
    for (const TiedExtents& tie : ties_of_factors(op))
      relations.push_back({"", length_of(tie.left), length_of(tie.right)});
  std::erase_if(relations, is_certain);
  for (LengthRelation& relation : relations)
    if (relation.left.is_constant() && !relation.may_be_less) std::swap(relation.left, relation.right);
  return relations;
}

std::vector<LooseLength> loose_lengths(const OpView& op) {
  const bool is_related = op_def(op.op()).relate != nullptr;
  const auto is_open = [&](ValueId v) { return v && !is_static(op.graph().type(v).shape); };
  if (!std::ranges::any_of(op.op().inputs, is_open) || !ties_operands(op)) return {};
  std::vector<LooseLength> loose;
  for (const TiedExtents& tie : is_related ? related_ties(op) : ties_of_factors(op)) {
    const std::optional<Extent> one = one_extent(tie.left, tie.right);
    if (!one) continue;
    for (const Extent& each : {tie.left, tie.right}) {
      const bool is_number = !one->is_run_time() && is_broadcast(op) && !tie.is_summed;
      if (each.is_run_time() && (each.bound > one->bound || is_number))
        loose.push_back({*each.length, each.bound, *one});
    }
  }
  return loose;
}

bool is_given(const Module& module, const Length& length) {
  std::set<std::string> given;
  for (ValueId input : module.graph.inputs())
    for_each_name(module.graph.type(input).shape, [&](const std::string& name) { given.insert(name); });
  bool all = true;
  for_each_name(length, [&](const LengthSymbolPtr& name) { all = all && given.contains(name->text); });
  return all;
}

/// The option that bounds a length of inputs: --dim, or --shape for a dim without a name, which is named after its
/// input.
static std::string how_to_bound(const Module& module, const Length& length, const Extent& wanted) {
  const std::string number = std::to_string(wanted.bound);
  for (const ValueId input : module.graph.inputs()) {
    const std::string& name = module.graph.value(input).name;
    const Shape& shape = module.graph.type(input).shape;
    for (size_t d = 0; d < shape.size(); ++d)
      if (length_of(shape[d]) == length && length == Length::named(format("{}_{}", name, d), shape[d].bound))
        return format("give --shape {} {} for dim {}", name, wanted.is_run_time() ? "<=" + number : number, d);
  }
  return format("give --dim {}{}{}", length.text(), wanted.is_run_time() ? "<=" : "=", number);
}

bool refuse_loose_length(const OpView& op, const LooseLength& loose) {
  const std::string wanted = loose.wanted.is_run_time()
                                 ? format("{} (at most {})", loose.wanted.length->text(), loose.wanted.bound)
                                 : std::to_string(loose.wanted.bound);
  const bool is_of_inputs = is_given(op.module(), loose.length);
  std::string told = "no --dim can make a number of what data decides";
  if (as_name(loose.length) && loose.wanted.is_run_time() && !is_of_inputs)
    told = format("data decides it, --dim {}<={} says that it is no more", loose.length.text(), loose.wanted.bound);
  else if (as_name(loose.length) && is_of_inputs)
    told = how_to_bound(op.module(), loose.length, loose.wanted);
  else if (is_of_inputs)
    told = format("bound its dims by --dim so that they make {} at most, or pin them", loose.wanted.bound);
  return op.fail("bounds-differ-unsupported", "{} (at most {}) is taken for {} here: {}", loose.length.text(),
                 loose.bound, wanted, told);
}

bool has_equal_bounds(const OpView& op) {
  const std::vector<LooseLength> loose = loose_lengths(op);
  return loose.empty() || refuse_loose_length(op, loose.front());
}

}  // namespace weftc
