// Layouts of several places in the entries of one schedule.
#pragma once
#include <vector>

#include "passes/sharding/plan_sharding.h"

namespace weftc {

/// One set of entries for places that have layouts of their own: a place names all axes, and has one rank on those of
/// other places, where an entry for them slices nothing.
struct PlaceLayouts {
  std::vector<Mesh> meshes;  // by place
  std::vector<PlannedEntry> entries;
};

/// Of the plans of places, by place. Plans of the same entries have axes in common, with the names of the plan of most
/// ranks; a value of which several plans have an entry has one of all their axes.
PlaceLayouts join_layouts(const std::vector<const ShardingPlan*>& plans);

}  // namespace weftc
