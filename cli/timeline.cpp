// Predicts a Plan's timeline under the target's ceilings, and says in one line which these are.
#include "cli/timeline.h"

namespace weftc {

namespace {

std::string ceilings_text(const Ceilings& c) {
  return c.machine + ": f32 " + metric_text(c.f32) + "OP/s, memory " + metric_text(c.memory) + "B/s, link " +
         metric_text(c.link) + "B/s and " + time_text(c.latency) + ", " + time_text(c.step) + " a step";
}

}  // namespace

Timeline predicted_timeline(const Compilation& c, const Options& options) {
  Ceilings ceilings = ceilings_of(c.plan.target);
  for (const auto& [name, value] : options.ceilings) *find_ceiling(ceilings, name) = value;
  if (!options.ceilings.empty()) ceilings.machine += ", changed by --ceiling";
  const CostModel model(c.plan, c.module, ceilings);
  Timeline timeline = predict_timeline(c.plan, model);
  timeline.source = "predicted for " + join(c.plan.target.archs, ", ") + " on " + ceilings_text(ceilings);
  return timeline;
}

}  // namespace weftc
