// The layouts of a place of a pipeline: what those of the whole model are for its stages.
#pragma once
#include <set>
#include <vector>

#include "cli/compilation.h"
#include "passes/prepare/stages.h"
#include "passes/select.h"
#include "passes/sharding/plan_sharding.h"

namespace weftc {

/// What crosses a cut lies where it goes as its producer makes it. So an entry for it, which was chosen for readers
/// that are elsewhere now, is left out, and the place that reads it gets one (`NAME.use`) that slices it as it is
/// sliced where the whole model is at one place.
class StageLayouts {
 public:
  /// Of a module in front of apply-layouts whose cells are of these stages.
  StageLayouts(Compilation& c, const StageCells& cells, const std::vector<int>& stage_of_cells);
  /// A plan of the whole model, for stages at places of so many ranks each; its axes get their names.
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
  std::vector<Stages> stages_;  // by op: that have its results
};

}  // namespace weftc
