// One walk back through a graph: the derivatives of a number by values, from those that are known, by the rules in the
// records of the ops on the way (ir/ops/gradient.h). Ops that own graphs are passed by a walk through each of these
// (differentiate_regions.cpp).
#pragma once
#include <unordered_map>
#include <unordered_set>

#include "ir/ops/gradient.h"

namespace weftc {

/// The origins of what goes back through nodes: that of node N is called N.grad.
class BackwardOrigins {
 public:
  explicit BackwardOrigins(Module& module) : module_(module) {}
  /// That of the way back through a node; of what is on the way back already its own.
  OriginId of(OriginId origin);

 private:
  Module& module_;
  std::unordered_map<uint32_t, OriginId> backs_;
};

class Backward {
 public:
  /// Derivatives by `xs` of what stands in front of `behind` (none: in the whole graph), where the way back is written.
  Backward(Module& module, Graph& graph, OpId behind, const std::vector<ValueId>& xs, BackwardOrigins& origins,
           Diags& diags);

  /// One more part of the derivative by a value, which may have dimensions along which the value was broadcast.
  void add(ValueId value, ValueId derivative, const Op& like);
  /// Goes back to the xs; false after reporting.
  bool walk();
  /// The derivative by a value as far as it is known; none where the number does not depend on the value.
  ValueId derivative(ValueId value) const;
  bool depends_on_xs(ValueId value) const { return on_way_.contains(value); }
  bool is_made_here(ValueId value) const { return graph_.producer(value).index >= first_made_; }

  /// What an op on the way back through this one is like: named N.grad, so that N means in a schedule what it means in
  /// the model.
  Op backward_of(const Op& op);
  /// Puts an op that has more results in the place of another one.
  OpId widen(OpId id, NewOp wider);
  /// False after reporting what keeps the op from being differentiated.
  bool refuse(OpId id, const char* why) const;

  Module& module() { return module_; }
  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }
  OpId behind() const { return behind_; }
  BackwardOrigins& origins() { return origins_; }
  Diags& diags() { return diags_; }

 private:
  void mark_way(OpId first, OpId end);
  bool is_passed(OpId id) const;
  bool has_rule(OpId id) const;
  OpId pass(OpId id);
  OpId by_parts(OpId id);
  OpId with_kept_results(OpId id);
  bool by_rule(OpId id);
  void name_derivatives(OpId id);

  Module& module_;
  Graph& graph_;
  OpId behind_, last_;  // last_: of the ops that are passed
  BackwardOrigins& origins_;
  Diags& diags_;
  std::unordered_set<ValueId> ends_;              // the xs
  std::unordered_set<ValueId> on_way_;            // what depends on the xs
  std::unordered_map<ValueId, ValueId> derived_;  // the derivative by each value, as far as it is summed up
  std::unordered_set<ValueId> named_;
  size_t first_made_ = 0;
};

/// Passes an If or a Loop, perhaps replaced by one with more results: the op that stands there now, none after
/// reporting.
OpId back_through_region(Backward& back, OpId id);

}  // namespace weftc
