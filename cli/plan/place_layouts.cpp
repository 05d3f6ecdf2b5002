#include "cli/plan/place_layouts.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "cli/plan/layout_plans.h"
#include "frontend/schedule_writer.h"

namespace weftc {

namespace {

std::vector<std::string> axes_of(const Mesh& mesh) {
  std::vector<std::string> names;
  for (const MeshAxis& axis : mesh) names.push_back(axis.name);
  return names;
}

/// True if the entries of one slice on the axes of the other as they do on their own.
bool are_alike(const ShardingPlan& a, const ShardingPlan& b) {
  return axes_of(a.mesh) == axes_of(b.mesh) && lines_of(a.entries) == lines_of(b.entries);
}

/// "tp_of_3" of three ranks, where other places have an axis tp.
ShardingPlan with_own_axes(ShardingPlan plan) {
  const std::string end = "_of_" + std::to_string(mesh_size(plan.mesh));
  for (MeshAxis& axis : plan.mesh) axis.name += end;
  for (PlannedEntry& planned : plan.entries)
    for (AxisRequest& request : planned.entry.axes)
      for (std::string& axis : request.axes) axis += end;
  return plan;
}

void add_entry(const PlannedEntry& planned, PlaceLayouts& made) {
  const auto is_same = [&](const PlannedEntry& other) {
    return other.entry.use == planned.entry.use &&
           shown_selector(other.entry.target) == shown_selector(planned.entry.target);
  };
  const auto known = std::ranges::find_if(made.entries, is_same);
  if (known == made.entries.end()) {
    made.entries.push_back(planned);
    return;
  }
  std::vector<AxisRequest>& axes = known->entry.axes;
  axes.insert(axes.end(), planned.entry.axes.begin(), planned.entry.axes.end());
  known->is_needed = known->is_needed || planned.is_needed;
}

}  // namespace

PlaceLayouts join_layouts(const std::vector<const ShardingPlan*>& plans) {
  std::vector<ShardingPlan> distinct;       // those that slice, with the names of their axes
  std::vector<std::vector<size_t>> places;  // of each, those of most ranks first
  std::vector<size_t> order(plans.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t p) { return mesh_size(plans[p]->mesh); });
  for (const size_t p : order) {
    if (mesh_size(plans[p]->mesh) == 1) continue;
    const auto known = std::ranges::find_if(distinct, [&](const auto& other) { return are_alike(other, *plans[p]); });
    const auto at = static_cast<size_t>(known - distinct.begin());
    if (known == distinct.end()) distinct.push_back(*plans[p]), places.emplace_back();
    places[at].push_back(p);
  }
  PlaceLayouts made;
  Mesh one;  // all axes, with one rank on each
  for (size_t d = 0; d < distinct.size(); ++d) {
    if (d > 0) distinct[d] = with_own_axes(std::move(distinct[d]));
    for (const MeshAxis& axis : distinct[d].mesh) one.push_back({axis.name, 1});
    for (const PlannedEntry& planned : distinct[d].entries) add_entry(planned, made);
  }
  made.meshes.assign(plans.size(), one);
  size_t first = 0;  // of the axes of a plan
  for (size_t d = 0; d < distinct.size(); first += distinct[d++].mesh.size())
    for (const size_t place : places[d])
      for (size_t a = 0; a < distinct[d].mesh.size(); ++a)
        made.meshes[place][first + a].size = plans[place]->mesh[a].size;
  return made;
}

}  // namespace weftc
