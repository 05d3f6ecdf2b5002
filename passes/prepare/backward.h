// One walk back through a graph: computes the derivatives of a number by values from those that are known, by the rules
// in the records of the ops on the way (ir/ops/gradient.h). For ops that own graphs, another walk goes through each of
// these (differentiate_regions.cpp).
#pragma once
#include <unordered_map>
#include <unordered_set>

#include "ir/ops/gradient.h"

namespace weftc {

/// The origins of backward ops: that of node N is called N.grad.
class BackwardOrigins {
 public:
  explicit BackwardOrigins(Module& module) : module_(module) {}
  /// The origin of the backward ops of a node; backward origins map to themselves.
  OriginId of(OriginId origin);

 private:
  Module& module_;
  std::unordered_map<uint32_t, OriginId> backs_;
};

class Backward {
 public:
  /// Derivatives by `xs` of the ops before the given one (if it is invalid, of the whole graph); new ops go before it.
  Backward(Module& module, Graph& graph, OpId after, const std::vector<ValueId>& xs, BackwardOrigins& origins,
           Diags& diags);

  /// Adds a term to the derivative by a value; the term may have dimensions along which the value was broadcast.
  void add(ValueId value, ValueId derivative, const Op& like);
  /// Goes back to the xs; false after reporting.
  bool walk();
  /// The derivative by a value as far as it is known; invalid where the number does not depend on the value.
  ValueId derivative(ValueId value) const;
  bool depends_on_xs(ValueId value) const { return on_way_.contains(value); }
  bool is_made_here(ValueId value) const { return graph_.producer(value).index >= first_made_; }

  /// The pattern for new ops on the way back through this op: they are named N.grad, so that N in a schedule means the
  /// same as in the model.
  Op backward_of(const Op& op);
  /// Replaces an op by one with more results.
  OpId widen(OpId id, NewOp wider);
  /// Reports why the op cannot be differentiated; returns false.
  bool refuse(OpId id, const char* why) const;

  Module& module() { return module_; }
  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }
  OpId after() const { return after_; }
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
  OpId after_, last_;  // last_: of the ops that are passed
  BackwardOrigins& origins_;
  Diags& diags_;
  std::unordered_set<ValueId> ends_;              // the xs
  std::unordered_set<ValueId> on_way_;            // values that depend on the xs
  std::unordered_map<ValueId, ValueId> derived_;  // the derivative by each value, as far as it is summed up
  std::unordered_set<ValueId> named_;
  size_t first_made_ = 0;
};

/// Passes an If or a Loop, which may be replaced by one with more results; returns the op that is there now, invalid
/// after reporting.
OpId back_through_region(Backward& back, OpId id);

}  // namespace weftc
