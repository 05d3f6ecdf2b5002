// Predicts a Plan's timeline on a machine, and says in one line which that is.
#include "cli/timeline.h"

#include <map>

#include "cli/machine_use.h"
#include "cli/measured_times.h"
#include "passes/cost/block_costs.h"

namespace weftc {

Timeline predicted_timeline(const Compilation& c) {
  Timeline timeline = predict_timeline(c.plan, CostModel(c.plan, c.module, c.machine));
  timeline.source = "predicted for " + join(c.plan.target.archs, ", ") + " on " + figures_text(c.machine);
  return timeline;
}

std::optional<OrderPicture> predicted_order(const Compilation& c, const Options& options, Diags& diags) {
  if (!c.module.pipeline) return {};
  const Pipeline& pipeline = *c.module.pipeline;
  BlockCosts costs = block_costs(c.plan, pipeline, CostModel(c.plan, c.module, c.machine));
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
