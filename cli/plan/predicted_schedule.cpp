#include "cli/plan/predicted_schedule.h"

#include <algorithm>

#include "cli/compile.h"
#include "cli/machine_use.h"
#include "cli/plan/layout_plans.h"
#include "cli/process.h"
#include "cli/table.h"
#include "cli/timeline.h"
#include "frontend/schedule_reader.h"
#include "frontend/schedule_writer.h"

namespace weftc {

namespace {

constexpr const char* kTooLittleMemory = "too little memory";

/// The schedule with as much computed again as its ranks' memory takes; nothing where it does not train, or says what.
std::optional<PredictedSchedule> with_recomputation(const Options& options, const PredictedSchedule& kept) {
  Diags unreported;
  const std::optional<Schedule> schedule = read_schedule_text("plan.yaml", kept.text, unreported);
  const std::optional<Machine> machine = machine_for(options, unreported);
  if (!schedule || !machine || !schedule->train || schedule->train->recompute) return {};
  const std::optional<std::string> text = with_recompute_limit("plan.yaml", kept.text, machine->memory,
                                                               "without it a rank's memory is too small", unreported);
  if (!text) return {};
  return predict(options, kept.what + ", recomputed", *text);
}

}  // namespace

PredictedSchedule predict(const Options& options, std::string what, std::string text, const Compilation* like) {
  PredictedSchedule made{std::move(what), std::move(text), 0, 0, ""};
  Options quiet = with_schedule(options, made.text);
  quiet.quiet = true;
  Diags diags;
  const std::unique_ptr<Compilation> c = compile_graph(quiet, diags, like);
  if (!c || !compile_plan(*c, quiet, diags)) {
    made.refused = "[" + diags.all().front().id + "]";
  } else {
    made.seconds = predicted_timeline(*c).seconds;
    made.memory = needed_bytes(c->plan);
    if (c->machine.memory > 0 && made.memory > c->machine.memory) made.refused = kTooLittleMemory;
  }
  return made;
}

PredictedSchedule predict_aloud(const Options& options, std::string what, std::string text) {
  PredictedSchedule made = predict(options, std::move(what), std::move(text));
  if (made.refused == kTooLittleMemory)
    if (std::optional<PredictedSchedule> again = with_recomputation(options, made); again && again->refused.empty())
      made = std::move(*again);
  progress(options, format("{}: {}", made.what, made.refused.empty() ? seconds_text(made.seconds) : made.refused));
  return made;
}

std::string schedule_table(std::vector<PredictedSchedule> schedules) {
  std::stable_sort(schedules.begin(), schedules.end(),
                   [](const PredictedSchedule& a, const PredictedSchedule& b) { return a.is_better_than(b); });
  TableRows rows = {{"schedule", "predicted", "of the best", "memory a rank"}};
  for (const PredictedSchedule& one : schedules) {
    const std::string ratio = fixed(one.seconds / schedules.front().seconds, "%.2f");
    const std::string memory = one.memory > 0 ? bytes_text(one.memory) : "";
    if (one.refused.empty())
      rows.push_back({one.what, seconds_text(one.seconds), ratio, memory});
    else
      rows.push_back({one.what, one.refused, "", memory});
  }
  return table_text(rows);
}

}  // namespace weftc
