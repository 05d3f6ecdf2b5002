#include "cli/plan/predicted_schedule.h"

#include <algorithm>
#include <map>

#include "cli/compile.h"
#include "cli/machine_use.h"
#include "cli/plan/layout_plans.h"
#include "cli/process.h"
#include "cli/table.h"
#include "cli/timeline.h"
#include "frontend/schedule_reader.h"
#include "frontend/schedule_writer.h"
#include "ir/base/check.h"

namespace weftc {

namespace {

constexpr const char* kTooLittleMemory = "too little memory";

/// The schedule with as much recomputation as its ranks' memory requires; nullopt if it does not train, or specifies
/// recomputation itself.
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

std::string first_error(const Diags& diags) {
  const auto is_error = [](const Diagnostic& one) { return one.severity == Diagnostic::Severity::Error; };
  const auto error = std::ranges::find_if(diags.all(), is_error);
  WEFT_CHECK(error != diags.all().end(), "a schedule has no program, and no reason why");
  return error->id;
}

TimeParts parts_of(const Timeline& timeline) {
  const BusyTimes busy = mean_times(busy_times(timeline));
  TimeParts parts;
  parts.computing = busy.both - busy.communication;
  parts.exchanging = busy.both - busy.computation;
  parts.both = busy.computation + busy.communication - busy.both;
  parts.idle = timeline.seconds - busy.both;
  return parts;
}

/// "AllReduce sum over tp" as it is; messages and kernels that exchange something without their names.
std::string kind_of(const TimelineStep& step) {
  for (const char* kind : {"send", "recv", "launch"})
    if (step.what.starts_with(std::string(kind) + " ")) return kind == std::string("launch") ? "inside kernels" : kind;
  return step.what;
}

/// The exchanges of the rank that sends most.
std::vector<ExchangeRow> exchanges_of(const Timeline& timeline) {
  std::map<int, std::map<std::string, ExchangeRow>> by_rank;
  std::map<int, int64_t> bytes;
  for (const TimelineBox& box : timeline.boxes) {
    const TimelineStep& step = timeline.steps[static_cast<size_t>(box.step)];
    if (!step.communicates) continue;
    const int rank = timeline.lanes[static_cast<size_t>(box.lane)].rank;
    ExchangeRow& row = by_rank[rank][kind_of(step)];
    row.what = kind_of(step);
    ++row.count;
    row.bytes += step.cost.work.link_bytes;
    row.seconds += box.end - box.begin;
    bytes[rank] += step.cost.work.link_bytes;
  }
  std::vector<ExchangeRow> rows;
  if (bytes.empty()) return rows;
  const auto most = std::ranges::max_element(bytes, [](const auto& a, const auto& b) { return a.second < b.second; });
  for (auto& [kind, row] : by_rank[most->first]) rows.push_back(std::move(row));
  return rows;
}

}  // namespace

PredictedSchedule predict(const Options& options, std::string what, std::string text, const Compilation* before) {
  PredictedSchedule made;
  made.what = std::move(what), made.text = std::move(text);
  Options quiet = with_schedule(options, made.text);
  quiet.quiet = true;
  Diags diags;
  const std::unique_ptr<Compilation> c = before ? compile_graph_on(*before, quiet, diags) : compile_graph(quiet, diags);
  const bool runs = c && compile_plan(*c, quiet, diags);
  made.memory = c ? needed_bytes(c->plan) : 0;  // nullopt without a plan
  if (c && c->machine.memory > 0) made.lacking = std::max<int64_t>(0, made.memory - c->machine.memory);
  if (!runs && made.lacking == 0) {
    made.refused = "[" + first_error(diags) + "]";
    return made;
  }
  const Timeline timeline = predicted_timeline(*c);
  made.seconds = timeline.seconds;
  made.time = parts_of(timeline);
  made.exchanges = exchanges_of(timeline);
  if (made.lacking > 0) made.refused = kTooLittleMemory;
  return made;
}

PredictedSchedule predict_aloud(const Options& options, std::string what, std::string text) {
  PredictedSchedule made = predict(options, std::move(what), std::move(text));
  if (made.refused == kTooLittleMemory)
    if (std::optional<PredictedSchedule> again = with_recomputation(options, made); again && again->refused.empty()) {
      again->lacking = made.lacking;
      made = std::move(*again);
    }
  progress(options, format("{}: {}", made.what, made.refused.empty() ? seconds_text(made.seconds) : made.refused));
  return made;
}

void sort_schedules(std::vector<PredictedSchedule>& schedules) {
  std::stable_sort(schedules.begin(), schedules.end(),
                   [](const PredictedSchedule& a, const PredictedSchedule& b) { return a.is_better_than(b); });
}

std::string schedule_table(std::vector<PredictedSchedule> schedules) {
  sort_schedules(schedules);
  TableRows rows = {{"schedule", "predicted", "of the best", "memory a rank"}};
  for (const PredictedSchedule& one : schedules) {
    const std::string ratio = fixed(ratio_of(one.seconds, schedules.front().seconds), "%.2f");
    const std::string memory = one.memory > 0 ? bytes_text(one.memory) : "";
    if (one.refused.empty())
      rows.push_back({one.what, seconds_text(one.seconds), ratio, memory});
    else
      rows.push_back({one.what, one.refused, "", memory});
  }
  return table_text(rows);
}

}  // namespace weftc
