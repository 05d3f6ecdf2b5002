#include "cli/plan/plan_figures.h"

#include <algorithm>

#include "frontend/schedule_writer.h"
#include "ir/op_def.h"

namespace weftc {

namespace {

std::vector<int> sizes_of(const Mesh& mesh) {
  std::vector<int> sizes;
  for (const MeshAxis& axis : mesh) sizes.push_back(axis.size);
  return sizes;
}

std::vector<ExchangeRow> rows_of(const ShardingPlan& plan) {
  std::vector<ExchangeRow> rows;
  for (const ExchangeSum& sum : plan.exchanges) {
    std::vector<std::string> axes;
    for (const int axis : sum.axes) axes.push_back(plan.mesh[static_cast<size_t>(axis)].name);
    rows.push_back({format("{} over {}", op_def(sum.kind).name, join(axes, ", ")), sum.count, sum.bytes, sum.seconds});
  }
  return rows;
}

/// Layouts are sums: nothing is done at once.
PlanWay way_of(std::string name, const ShardingPlan& plan) {
  PlanWay way{std::move(name)};
  way.is_bound = plan.is_bound;
  way.time = {plan.seconds - plan.exchanging(), 0, plan.exchanging(), 0};
  way.memory = plan.peak;
  way.exchanges = rows_of(plan);
  return way;
}

PlanWay way_of(const PredictedSchedule& schedule) {
  PlanWay way{schedule.what};
  if (schedule.refused.empty() || schedule.seconds > 0) way.time = schedule.time;
  way.memory = schedule.memory;
  way.refused = schedule.refused;
  way.exchanges = schedule.exchanges;
  return way;
}

std::vector<PlanEntryRow> entry_rows(const ShardingPlan& plan) {
  std::vector<PlanEntryRow> rows;
  for (const PlannedEntry& planned : plan.entries) {
    const EntryShare& share = planned.share;
    rows.push_back({shard_text(planned.entry), share.values,
                    type_text({share.type.dtype, share.type.shape, {}}, plan.mesh),
                    layout_text(share.type.layout, plan.mesh), share.whole, share.of_rank, saves_text(planned)});
  }
  return rows;
}

SearchRow row_of(const ShardingPlan& plan) {
  const SearchSize& size = *plan.search;
  SearchRow row{axes_text(plan.mesh), seconds_text(plan.seconds)};
  if (plan.is_bound) row.outcome = "at least " + row.outcome + ": left out";
  row.ops = size.ops, row.classes = size.classes;
  row.ways = size.ways, row.ways_left = size.ways_left;
  row.bound = plan.bound, row.seconds = size.seconds;
  row.gap = plan.bound > 0 ? std::max(0.0, plan.seconds / plan.bound - 1) : 0;
  return row;
}

/// Every mesh that was searched; those on which no layouts fit have no plan.
std::vector<SearchRow> search_rows(const PlanRequest& request, const std::vector<ShardingPlan>& plans) {
  std::vector<SearchRow> rows;
  for (const Mesh& mesh : request.mesh ? std::vector<Mesh>{*request.mesh} : meshes_of(request.ranks)) {
    const auto found = std::ranges::find_if(
        plans, [&](const ShardingPlan& plan) { return plan.search && sizes_of(plan.mesh) == sizes_of(mesh); });
    if (found != plans.end())
      rows.push_back(row_of(*found));
    else
      rows.push_back({axes_text(mesh), "no layouts fit"});
  }
  return rows;
}

PlanReport report_for(const PlanRequest& request, const LayoutPlans& layouts) {
  PlanReport report;
  report.machine = request.machine.name();
  report.ranks = request.ranks;
  report.memory = request.machine.memory;
  report.searches = search_rows(request, layouts.plans);
  return report;
}

/// Layouts without entries, which are alike for all ranks. They are listed once.
bool are_alike(const ShardingPlan& plan) { return !plan.is_bound && plan.entries.empty(); }
bool are_alike(const PredictedSchedule& schedule) {
  return schedule.stages.empty() && schedule.layouts && are_alike(*schedule.layouts);
}

void add_known(PlanWay way, PlanReport& report) {
  way.is_known = true;
  report.ways.push_back(std::move(way));
}

}  // namespace

PlanReport report_of_layouts(const PlanRequest& request, const LayoutPlans& layouts) {
  PlanReport report = report_for(request, layouts);
  for (const ShardingPlan& plan : layouts.plans) report.ways.push_back(way_of(mesh_text(request, plan), plan));
  const bool has_alike = std::ranges::any_of(layouts.plans, [](const ShardingPlan& plan) { return are_alike(plan); });
  for (const KnownPlan& known : layouts.known) {
    if (has_alike && known.plan && are_alike(*known.plan)) continue;
    PlanWay way = known.plan ? way_of(known.name, *known.plan) : PlanWay{known.name};
    way.refused = known.missing;
    add_known(std::move(way), report);
  }
  report.stages = {layouts.plans.front().mesh};
  report.entries = entry_rows(layouts.plans.front());
  return report;
}

PlanReport report_of_schedules(const PlanRequest& request, const LayoutPlans& layouts,
                               std::vector<PredictedSchedule> found, const std::vector<PredictedSchedule>& known) {
  sort_schedules(found);
  PlanReport report = report_for(request, layouts);
  for (const PredictedSchedule& schedule : found) report.ways.push_back(way_of(schedule));
  const bool has_alike =
      std::ranges::any_of(found, [](const PredictedSchedule& schedule) { return are_alike(schedule); });
  for (const PredictedSchedule& schedule : known)
    if (!has_alike || !are_alike(schedule)) add_known(way_of(schedule), report);
  const PredictedSchedule& best = found.front();
  report.stages = best.stages;
  if (report.stages.empty()) report.stages.push_back(best.layouts ? best.layouts->mesh : Mesh());
  report.schedule = best.text;
  if (best.layouts) report.entries = entry_rows(*best.layouts);
  return report;
}

}  // namespace weftc
