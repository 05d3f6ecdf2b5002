// A model of many layers reduced to a few of them, on which entries are tried. The cost of a middle layer counts for
// all that were left out.
//
//   h.0  h.1  h.2  h.3 ... h.93  h.94  h.95     ->     h.0  h.1  h.2 (x 92)  h.94  h.95
#pragma once
#include "passes/sharding/shard_entries.h"

namespace weftc {

class LayerExcerpt {
 public:
  /// Nothing where no layers can be left out: there are few of them, or they do not read each other alike. `classes`
  /// are those of the module's graph.
  static std::optional<LayerExcerpt> of(const Module& module, const LayerClasses& classes);

  /// Ops and values have ids of their own, and the names that they have in the whole graph.
  Graph graph;
  std::vector<State> states;  // those whose input and output are there

  LayerClasses classes() const { return LayerClasses::of_part(graph, *whole_classes_, whole_ops_); }
  /// The layouts of the whole graph's ops and values that are in the excerpt.
  ChosenLayouts part_of(const ChosenLayouts& whole) const;
  /// How many copies each op stands for, in a graph that was laid out from the excerpt.
  LayerCopies copies(const Graph& laid_out) const;
  /// The entries of the excerpt as entries of the whole graph: an entry for a layer that stands for others becomes one
  /// for each.
  std::vector<PlannedEntry> for_whole(const std::vector<PlannedEntry>& entries) const;
  /// True if each of the entries applies to something in the excerpt.
  bool has(const std::vector<PlannedEntry>& entries) const;

 private:
  friend class ExcerptMaker;
  LayerExcerpt() = default;

  const Graph* whole_ = nullptr;
  const LayerClasses* whole_classes_ = nullptr;
  std::vector<OpId> whole_ops_;        // by op
  std::vector<ValueId> whole_values_;  // by value
  std::vector<int> kept_;              // by op: which of the layers that were kept it is in, or -1
  std::vector<int64_t> copies_;        // by op
};

/// Replaces the module's graph and states by the excerpt's for the lifetime of this object.
class ModuleOfExcerpt {
 public:
  ModuleOfExcerpt(Module& module, LayerExcerpt& excerpt) : module_(module), excerpt_(excerpt) { exchange(); }
  ~ModuleOfExcerpt() { exchange(); }
  ModuleOfExcerpt(const ModuleOfExcerpt&) = delete;

 private:
  void exchange() {
    std::swap(module_.graph, excerpt_.graph);
    std::swap(module_.states, excerpt_.states);
  }
  Module& module_;
  LayerExcerpt& excerpt_;
};

}  // namespace weftc
