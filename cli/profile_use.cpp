// The times of a profile for the order that the schedule gives.
#include "cli/profile_use.h"

#include "cli/measured_times.h"
#include "cli/timeline_text.h"

namespace weftc {

bool add_measured_times(Compilation& c, const Options& options, Diags& diags) {
  if (options.profile.empty() || c.order) return true;
  const std::optional<Profile> profile = read_profile(options.profile, diags);
  if (!profile) return false;
  if (!c.module.pipeline) {
    std::vector<std::string> blocks;
    for (const BlockTime& block : profile->blocks)
      blocks.push_back(block.name + " " + time_text(static_cast<double>(block.time) * 1e-9));
    c.measured = "measured times: " + join(blocks, ", ");
    return is_of_same(*profile, fingerprints_of(c.plan, c.module), diags);
  }
  BlockCosts costs = block_costs(c.plan, *c.module.pipeline, CostModel(c.plan, c.module, c.machine));
  if (!take_measured_times(costs, c.plan, c.module, c.schedule, *profile, diags)) return false;
  c.measured = times_text(costs, c.plan, c.module, c.schedule, true);
  return true;
}

void warn_of_unused_profile(const Compilation& c, const Options& options, Diags& diags) {
  if (!options.profile.empty() && !c.order)
    diags.warning("profile-unused", Loc::in_file(options.profile),
                  "the schedule searches no order: measured times change nothing");
}

}  // namespace weftc
