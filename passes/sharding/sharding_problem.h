// The choice of layouts for a whole graph as a problem for a solver (passes/partition). Each class of ops is a node,
// whose choices are the ways to compute it. Each class of values is a node too, whose choices are the layouts in which
// readers find it. An edge between an op and its result, or between a value and its reader, has the costs of the
// collectives from one layout to the other:
//
//   MatMul c_proj --[P(sum) to R: AllReduce]-- value c_proj --[R to S(1): a cut]-- Add residual
//
// So a collective that several readers need is paid once, after the op, where `apply-layouts` puts it (L7).
#pragma once
#include <span>

#include "passes/partition/solve.h"
#include "passes/sharding/layer_classes.h"
#include "passes/sharding/search_size.h"
#include "passes/sharding/sharding_costs.h"

namespace weftc {

/// Layouts for every op and value.
struct ChosenLayouts {
  std::vector<Layout> values;  // by value: in which readers find it
  std::vector<OpChoice> ops;   // by op
};

/// Bytes of a rank, and the values that take most of them; a value of all layers counts as one.
struct MemoryNeed {
  struct Part {
    std::string name;
    int64_t bytes = 0;
  };
  int64_t bytes = 0;
  std::vector<Part> parts;  // the largest first
};

class ShardingProblem {
 public:
  /// For the top graph of a module with one place, before apply-layouts. Ops of one class are computed alike. `memory`
  /// limits the bytes of a rank that weights, states and the values that live together may take.
  ShardingProblem(const Module& module, LayerClasses classes, const KeptLayouts& kept, const Ceilings& ceilings,
                  const ExchangeSeconds& exchange, std::optional<int64_t> memory);

  const PartitionProblem& problem() const { return problem_; }
  int axes() const { return static_cast<int>(mesh_.size()); }
  /// The layouts of a node's choice: one for each operand of an op, or one for a value.
  std::span<const Layout> layouts(int node, int choice) const;
  /// Picoseconds of a cost of 1.
  double unit() const { return static_cast<double>(unit_); }
  ChosenLayouts chosen(const std::vector<int>& choices) const;
  /// Its size, and how much of it the solver had left to search.
  SearchSize size(const PartitionSolution& solution) const;
  /// A lower bound on the memory of values that live together, however they are sliced. Nothing without a limit of
  /// memory.
  MemoryNeed least_memory() const;

 private:
  struct ValueClass {
    ValueId value;  // the first
    std::vector<Layout> layouts;
  };

  void add_ops();
  void add_values();
  void add_edges();
  void add_states();
  void add_memory(int64_t limit);
  void choose_unit();
  int node_of(ValueId value) const;
  const std::vector<Layout>& layouts_of(int node) const {
    return values_[static_cast<size_t>(node) - op_choices_.size()].layouts;
  }

  const Module& module_;
  const Graph& graph_;
  const Mesh mesh_;
  const LayerClasses classes_;
  const KeptLayouts& kept_;
  const SliceCandidates slices_;
  const ShardingCosts costs_;
  std::vector<std::vector<OpChoice>> op_choices_;  // by class of ops, which are the first nodes
  std::vector<ValueClass> values_;                 // the nodes that follow
  std::vector<std::vector<int>> value_nodes_;      // by class of ops, then by result
  PartitionProblem problem_;
  int64_t unit_ = 1;
};

}  // namespace weftc
