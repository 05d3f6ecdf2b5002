// Compiles a program for the trials of a kernel that have no record. The kernel with its present strategy is the first
// trial.
#include "cli/tune/kernel_trials.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "backend/emit.h"
#include "cli/process.h"
#include "cli/trace_file.h"
#include "passes/plan/kernel_candidates.h"

namespace weftc {

namespace {

constexpr double kRunMsOfKernel = 400;  // of one round, as far as the least iterations allow that
constexpr int kLeastIterations = 12, kMostIterations = 300, kMostRounds = 5;
constexpr size_t kGroups = 6;
constexpr double kLeastGain = 0.02;  // below it the code's place in memory makes as much of a difference

/// All of a program that is compiled, as one text.
std::string text_of(const std::vector<SourceFile>& files) {
  std::vector<std::string> texts;
  for (const SourceFile& file : files)
    if (file.path != "manifest.json") texts.push_back(file.text);
  return join(texts, "\n");
}

/// Milliseconds of each step by iteration, of the rank that took longest.
std::vector<std::vector<double>> launches_of(const Trace& trace, size_t steps) {
  std::map<std::string, size_t> number;
  for (size_t i = 0; i < steps; ++i) number[lone_step_name(i)] = i;
  std::vector<std::map<int, double>> by_iteration(steps);
  for (size_t b = 0; b < trace.all.boxes.size(); ++b) {
    const TimelineBox& box = trace.all.boxes[b];
    const auto at = number.find(trace.all.steps[static_cast<size_t>(box.step)].name);
    if (at == number.end()) continue;
    double& ms = by_iteration[at->second][trace.of_box[b]];
    ms = std::max(ms, 1e3 * (box.end - box.begin));
  }
  std::vector<std::vector<double>> launches(steps);
  for (size_t i = 0; i < steps; ++i)
    for (const auto& [iteration, ms] : by_iteration[i]) launches[i].push_back(ms);
  return launches;
}

double shortest(const std::vector<double>& ms, size_t group, size_t groups) {
  const auto at = [&](size_t g) { return ms.begin() + static_cast<std::ptrdiff_t>(ms.size() * g / groups); };
  return *std::min_element(at(group), at(group + 1));
}

/// Whether more runs would hardly say anything else: the interval is narrow, or far above 1.
bool is_clear(const Interval& ratio) {
  constexpr double kNarrow = 1.03, kFar = 1.1;
  return ratio.high < kNarrow * ratio.low || ratio.low > kFar;
}

/// The arguments for programs that also apply to a program without the model's ports and states.
std::vector<std::string> arguments_for_kernels(const std::vector<std::string>& run_args) {
  for (size_t i = 0; i + 1 < run_args.size(); ++i)
    if (run_args[i] == "--threads") return {run_args[i], run_args[i + 1]};
  return {};
}

}  // namespace

std::vector<Interval> ratios_of(const std::vector<std::vector<double>>& ms) {
  std::vector<Interval> ratios;
  for (const std::vector<double>& own : ms) {
    const size_t groups = std::min({kGroups, own.size(), ms.front().size()});
    std::vector<double> of_groups;
    for (size_t g = 0; g < groups; ++g) of_groups.push_back(shortest(own, g, groups) / shortest(ms.front(), g, groups));
    ratios.push_back(interval_of(of_groups));
  }
  return ratios;
}

/// Why it cannot be built, or "".
std::string KernelTrials::build(const Plan& plan, const std::string& program) {
  Diags diags;
  Options options = options_;
  options.quiet = true;
  options.output = program;
  const std::vector<SourceFile> files = emit(plan, diags);
  exit_code_ = diags.ok() ? weftc::build({&plan}, files, options, diags, cache_) : diags.exit_code();
  return exit_code_ == 0 ? "" : "not built: " + (diags.all().empty() ? "" : diags.all().front().message);
}

/// Milliseconds of each launch by iteration; nothing with `failure`.
std::vector<std::vector<double>> KernelTrials::run(const std::string& program, size_t launches, int iterations,
                                                   std::string& failure) {
  const std::string file = program + ".json";
  std::vector<std::string> command{program, "--random-inputs", "1", "--warmup", "1", "--iterations"};
  command.insert(command.end(), {std::to_string(iterations), "--trace", file});
  const std::vector<std::string> more = arguments_for_kernels(options_.run_args);
  command.insert(command.end(), more.begin(), more.end());
  const Finished finished = run_program(command, kRunSeconds);
  exit_code_ = finished.exit_code;
  if (finished.exit_code != 0) {
    failure = failure_text(finished);
    return {};
  }
  Diags diags;
  const std::optional<Trace> trace = read_traces({file}, diags);
  std::vector<std::vector<double>> ms;
  if (trace) ms = launches_of(*trace, launches);
  if (!trace)
    failure = diags.all().front().message;
  else if (std::any_of(ms.begin(), ms.end(), [](const auto& own) { return own.empty(); }))
    failure = "the trace lacks a launch";
  return failure.empty() ? ms : std::vector<std::vector<double>>{};
}

/// Runs until it is clear which trials are faster than the first one, or for some rounds; why there are no times, or
/// "".
std::string KernelTrials::time(const std::string& program, const std::vector<size_t>& of_step,
                               std::vector<KernelTrial>& trials) {
  std::string failure;
  std::vector<std::vector<double>> ms = run(program, of_step.size(), 2, failure);
  double sum = 0;
  for (const std::vector<double>& own : ms) sum += *std::min_element(own.begin(), own.end());
  const double wanted = std::min<double>(kRunMsOfKernel / std::max(sum, 1e-3), kMostIterations);
  const int iterations = std::max(static_cast<int>(wanted), kLeastIterations);
  std::vector<Interval> ratios;
  for (int round = 0; round < kMostRounds && failure.empty(); ++round) {
    const std::vector<std::vector<double>> more = run(program, of_step.size(), iterations, failure);
    for (size_t i = 0; i < more.size(); ++i) {
      if (round == 0) ms[i].clear();
      ms[i].insert(ms[i].end(), more[i].begin(), more[i].end());
    }
    if (!failure.empty()) break;
    ratios = ratios_of(ms);
    if (std::all_of(ratios.begin(), ratios.end(), is_clear)) break;
  }
  if (!failure.empty()) return failure;
  for (size_t i = 0; i < of_step.size(); ++i) {
    trials[of_step[i]].ms = *std::min_element(ms[i].begin(), ms[i].end());
    trials[of_step[i]].ratio = ratios[i];
  }
  return "";
}

const KernelTrial* fastest_of(const std::vector<KernelTrial>& trials) {
  const KernelTrial* best = nullptr;
  for (size_t t = 1; t < trials.size(); ++t) {
    const KernelTrial& trial = trials[t];
    const bool is_faster = !std::isnan(trial.ms) && trial.ratio.high < 1 && trial.ratio.mean < 1 - kLeastGain;
    if (is_faster && (!best || trial.ratio.mean < best->ratio.mean)) best = &trial;
  }
  return best;
}

/// The Plan of each trial: the kernel, its storages and weights are as they would be in the whole program.
std::optional<std::vector<Plan>> KernelTrials::plans_of(const Compilation& c, const std::vector<KernelTrial>& trials,
                                                        Diags& diags) const {
  std::vector<Plan> plans;
  for (size_t t = 0; t < trials.size(); ++t) {
    std::vector<KernelPin> pins = c.schedule.kernels;
    if (t > 0) pins.push_back(trials[t].pin);
    std::optional<Plan> plan = plan_kernels(c.module, c.target, diags, pins);
    if (!plan) return {};
    plans.push_back(std::move(*plan));
  }
  return plans;
}

/// Takes known results from the records. A trial's key is made from the program that would compare it with the first.
std::vector<std::string> KernelTrials::look_up(const Compilation& c, const std::vector<LoneKernel>& lone,
                                               std::vector<KernelTrial>& trials, Diags& diags) const {
  std::vector<std::string> keys;
  for (size_t t = 0; t < trials.size(); ++t) {
    if (!lone_refusal(lone[t]).empty()) {  // so stored, its operands need not be copied: there is no step to time
      keys.emplace_back();
      trials[t].ms = NAN, trials[t].is_known = true;
      continue;
    }
    std::vector<LoneKernel> pair = {lone.front()};
    if (t > 0) pair.push_back(lone[t]);
    keys.push_back(trial_key({machine_, text_of(emit(lone_plan(c.module, pair, diags), diags))}));
    const std::optional<TrialRecord> known = records_.find(keys.back());
    if (known) trials[t].ms = known->ms, trials[t].ratio = known->ratio, trials[t].is_known = true;
  }
  return keys;
}

bool KernelTrials::measure(const Compilation& c, const std::string& kernel, std::vector<KernelTrial>& trials,
                           Diags& diags) {
  const std::optional<std::vector<Plan>> plans = plans_of(c, trials, diags);
  if (!plans) return false;
  std::vector<LoneKernel> lone;
  for (const Plan& plan : *plans) lone.push_back({&plan, step_of_kernel(plans->front(), kernel)});
  const std::vector<std::string> keys = look_up(c, lone, trials, diags);
  if (!diags.ok()) return false;
  std::vector<size_t> of_step = {0};  // the trial of each launch
  for (size_t t = 1; t < trials.size(); ++t)
    if (!trials[t].is_known) of_step.push_back(t);
  if (of_step.size() == 1) return true;
  std::vector<LoneKernel> launches;
  for (const size_t t : of_step) launches.push_back(lone[t]);
  const std::string program = format("{}/kernel_{}", work_.path(), built_++);
  std::string failure = build(lone_plan(c.module, launches, diags), program);
  if (failure.empty()) failure = time(program, of_step, trials);
  if (!failure.empty()) {
    diags.error("tune-run-kernel", Loc::in_file(options_.schedules.front()),
                "the program of kernel '{}' does not run: {}", printable(kernel), failure);
    return false;
  }
  for (const size_t t : of_step)
    records_.add(keys[t], {trials[t].ms, trials[t].ratio, true},
                 kernel + " " + (t > 0 ? strategy_text(trials[t].pin) : "as it is"));
  return true;
}

}  // namespace weftc
