// Predicts a Plan's timeline under the target's ceilings, and says in one line which these are.
#include "cli/timeline.h"

#include <map>

#include "cli/measured_times.h"
#include "passes/cost/block_costs.h"

namespace weftc {

namespace {

std::string ceilings_text(const Ceilings& c) {
  return c.machine + ": f32 " + metric_text(c.f32) + "OP/s, memory " + metric_text(c.memory) + "B/s, link " +
         metric_text(c.link) + "B/s and " + time_text(c.latency) + ", " + time_text(c.step) + " a step";
}

Ceilings ceilings_for(const Compilation& c, const Options& options) {
  Ceilings ceilings = ceilings_of(c.plan.target);
  for (const auto& [name, value] : options.ceilings) *find_ceiling(ceilings, name) = value;
  if (!options.ceilings.empty()) ceilings.machine += ", changed by --ceiling";
  return ceilings;
}

}  // namespace

Timeline predicted_timeline(const Compilation& c, const Options& options) {
  const Ceilings ceilings = ceilings_for(c, options);
  const CostModel model(c.plan, c.module, ceilings);
  Timeline timeline = predict_timeline(c.plan, model);
  timeline.source = "predicted for " + join(c.plan.target.archs, ", ") + " on " + ceilings_text(ceilings);
  return timeline;
}

std::optional<OrderPicture> predicted_order(const Compilation& c, const Options& options, Diags& diags) {
  if (!c.module.pipeline) return {};
  const Pipeline& pipeline = *c.module.pipeline;
  BlockCosts costs = block_costs(c.plan, pipeline, CostModel(c.plan, c.module, ceilings_for(c, options)));
  if (!options.profile.empty()) {
    const std::optional<Profile> profile = read_profile(options.profile, diags);
    if (!profile || !take_measured_times(costs, c.plan, c.module, c.schedule, *profile, diags)) return {};
  }
  std::vector<std::string> names;
  std::map<int, int> numbers;  // in the problem, by block of the Plan
  for (const int block : costs.blocks) {
    numbers[block] = static_cast<int>(names.size());
    names.push_back(c.plan.blocks[static_cast<size_t>(block)].name);
  }
  for (const int block : costs.once_blocks) names.push_back(c.plan.blocks[static_cast<size_t>(block)].name);
  std::vector<PipelineTurn> turns;
  for (const Pipeline::Entry& entry : pipeline.order)
    if (const auto number = numbers.find(entry.block); number != numbers.end())
      turns.push_back({number->second, entry.micro_batch});
  OrderPicture picture = picture_of(costs.pipeline, turns, pipeline.micro_batches, costs.once, names);
  for (size_t rank = 0; rank < picture.lanes.size(); ++rank) picture.lanes[rank].others = costs.others[rank];
  return picture;
}

}  // namespace weftc
