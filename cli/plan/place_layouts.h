// Merges layouts of several places into the entries of one schedule.
#pragma once
#include <vector>

#include "passes/sharding/plan_sharding.h"

namespace weftc {

/// One set of entries for places with different layouts. A place names all axes, and has one rank on the axes of other
/// places, so that entries for them slice nothing.
struct PlaceLayouts {
  std::vector<Mesh> meshes;  // by place
  std::vector<PlannedEntry> entries;
};

/// Joins the plans of places, given by place. Plans with the same entries share axes, named as in the plan with most
/// ranks. If several plans have an entry for a value, the joint entry has all their axes.
PlaceLayouts join_layouts(const std::vector<const ShardingPlan*>& plans);

}  // namespace weftc
