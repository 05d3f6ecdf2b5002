// Derives the layouts of a pipeline's place from those of the whole model.
#pragma once
#include <set>
#include <vector>

#include "cli/compilation.h"
#include "passes/prepare/stages.h"
#include "passes/select.h"
#include "passes/sharding/plan_sharding.h"

namespace weftc {

/// A value that crosses a cut arrives in its producer's layout. An entry for it was chosen for readers that are now
/// elsewhere, so it is left out. The place that reads the value gets an entry (`NAME.use`), which slices it as in the
/// plan of the whole model.
class StageLayouts {
 public:
  /// For a module before apply-layouts, whose cells belong to these stages.
  StageLayouts(Compilation& c, const StageCells& cells, const std::vector<int>& stage_of_cells);
  /// The plan of a place with these stages, from a plan of the whole model for as many ranks. Its axes get their names.
  ShardingPlan of(const std::set<int>& stages, ShardingPlan plan) const;

 private:
  using Stages = std::set<int>;
  Stages readers(ValueId value) const;
  const Stages& makers(ValueId value) const;
  bool is_inside(ValueId value, int stage) const;
  bool is_inside(const ShardEntry& entry, const Stages& stages) const;
  bool is_received(ValueId value, const Stages& stages) const;
  std::optional<Layout> layout_read(ValueId value, const Stages& stages, const Graph& laid_out) const;
  void add_received(const Stages& stages, const Graph& laid_out, ShardingPlan& plan) const;

  Compilation& c_;
  const StageCells& cells_;
  const SelectableNames names_;
  std::vector<Stages> stages_;  // by op: the stages that have its results
};

}  // namespace weftc
