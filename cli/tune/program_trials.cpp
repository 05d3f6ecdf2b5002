// A trial that a record knows is not built, unless it is the best one and was not yet raced in pairs.
#include "cli/tune/program_trials.h"

#include <algorithm>
#include <cmath>

#include "backend/emit.h"
#include "cli/build_report.h"
#include "cli/comparison.h"
#include "cli/compile.h"
#include "cli/process.h"
#include "cli/timeline.h"
#include "frontend/tensor_file.h"
#include "ir/base/quantity.h"

namespace weftc {

namespace {

constexpr double kMeasuredMs = 50;                        // a run is timed for about so long
constexpr size_t kHeatRounds = 3;                         // before the slower half of the candidates is dropped
constexpr int kFewIterations = 3, kManyIterations = 200;  // of a run that is timed
constexpr int kWrongInput = 1;                            // exit code of a program whose state would outgrow its bound

/// "150MB/s" of a program's --link, in bytes per second; nullopt if the arguments have no --link.
std::optional<double> link_of(const std::vector<std::string>& run_args) {
  const auto at = std::find(run_args.begin(), run_args.end(), "--link");
  if (at == run_args.end() || at + 1 == run_args.end()) return {};
  return parse_quantity(split(*(at + 1), ',').front(), Quantity::ByteRate);
}

/// The time of a trial beside the first one's, as far as it is known.
double ratio_of(const Trial& trial) {
  if (!trial.ratio.empty()) return median(trial.ratio);
  return trial.record ? trial.record->ratio.mean : NAN;
}

}  // namespace

void keep_promising(std::vector<Trial>& trials, size_t most) {
  if (trials.size() <= most) return;
  std::stable_sort(trials.begin() + 1, trials.end(),
                   [](const Trial& a, const Trial& b) { return a.predicted < b.predicted; });
  trials.resize(std::max<size_t>(1, most));
}

std::string ProgramTrials::schedule_file(const Choice& choice, Diags& diags) const {
  const std::optional<std::string> text = text_(choice, diags);
  if (!text) return "";
  const std::string path = work_.path() + "/candidate.yaml";
  if (const std::string why = write_file(path, *text); !why.empty())
    diags.error("candidate-unwritable", Loc::in_file(path), "the schedule cannot be written: {}", why);
  return path;
}

std::unique_ptr<Compilation> ProgramTrials::compile(const Trial& trial, Diags& diags) const {
  Options options = options_;
  options.quiet = true;
  options.schedules = {schedule_file(trial.choice, diags)};
  if (const std::optional<double> link = link_of(options_.run_args)) options.ceilings.push_back({"link", *link});
  std::unique_ptr<Compilation> c = diags.ok() ? compile_graph(options, diags) : nullptr;
  return c && compile_plan(*c, options, diags) ? std::move(c) : nullptr;
}

void ProgramTrials::predict(std::vector<Trial>& trials) {
  if (machine_.empty()) machine_ = machine_text(options_);
  std::string first;
  for (Trial& trial : trials) {
    Diags diags;
    const std::unique_ptr<Compilation> c = compile(trial, diags);
    if (!c) {
      trial.exit_code = diags.exit_code();
      trial.result = "not built: " + diags.all().front().id;
      continue;
    }
    trial.predicted = predicted_timeline(*c).seconds;
    std::string text;
    for (const SourceFile& file : emit(c->plan, diags))
      if (file.path != "manifest.json") text += file.text;
    if (&trial == trials.data()) first = text;
    trial.key = trial_key({machine_, join(options_.run_args, " "), first, text});
    trial.record = records_.find(trial.key);
  }
}

void ProgramTrials::build(Trial& trial) {
  Diags diags;
  const Stopwatch watch;
  Options options = options_;
  options.quiet = true;
  options.output = format("{}/{}", work_.path(), built_++);
  const std::unique_ptr<Compilation> c = compile(trial, diags);
  trial.exit_code = diags.exit_code();
  if (c) {
    const std::vector<SourceFile> files = emit(c->plan, diags);
    trial.exit_code = diags.ok() ? weftc::build({&c->plan}, files, options, diags, cache_) : diags.exit_code();
  }
  if (c && trial.exit_code == 0)
    trial.program = options.output;
  else
    trial.result = "not built: " + (diags.all().empty() ? "the compiler failed" : diags.all().front().id);
  seconds_of_build_ = watch.seconds();
}

/// One untimed run, whose outputs must equal the reference's. Returns why it is excluded, or "".
std::string ProgramTrials::first_difference(Trial& trial, const Trial& reference) {
  std::vector<std::string> command{trial.program,   "--random-inputs", "1",
                                   "--no-generate", "--output-dir",    trial.program + "_out"};
  command.insert(command.end(), options_.run_args.begin(), options_.run_args.end());
  const Finished finished = run_program(command, kRunSeconds);
  trial.exit_code = finished.exit_code;
  if (finished.exit_code != 0) return failure_text(finished);
  for (const std::string& name : outputs_) {
    Diags diags;
    const auto tensor_of = [&](const Trial& t) {
      return read_tensor_file(format("{}_out/{}.npy", t.program, output_file_name(name)), diags);
    };
    const std::optional<Tensor> result = tensor_of(trial), expected = tensor_of(reference);
    if (!result || !expected) return diags.all().front().message;
    const Comparison comparison = compare(name, *result, *expected, tolerance_);
    if (comparison.exit_code != 0) return comparison.detail;
  }
  return "";
}

/// Times a run of `iterations_` invocations, or fewer: a growing state may have no room for that many, and only the
/// program knows how much it grows.
Timing ProgramTrials::time_within_bounds(const Trial& reference) {
  Timing timing = time(reference);
  while (timing.exit_code == kWrongInput && iterations_ > 1) {
    iterations_ /= 2;
    timing = time(reference);
  }
  return timing;
}

/// Chooses the iterations of a run, so that it is timed for about kMeasuredMs; false after reporting that the reference
/// cannot be timed.
bool ProgramTrials::choose_iterations(Trial& reference, Diags& diags) {
  iterations_ = kFewIterations;
  Timing timing = time_within_bounds(reference);
  const double wanted = std::clamp<double>(kMeasuredMs / timing.ms, kFewIterations, kManyIterations);
  if (timing.failure.empty() && iterations_ == kFewIterations && wanted > kFewIterations) {
    iterations_ = static_cast<int>(wanted);
    timing = time_within_bounds(reference);
  }
  reference.result = timing.failure;
  reference.exit_code = timing.exit_code;
  return report_reference(reference, diags);
}

/// True if the reference did not fail; else reports how, because nothing can be compared with it.
bool ProgramTrials::report_reference(const Trial& reference, Diags& diags) {
  const bool is_of_machine = reference.exit_code == kEnvironment || reference.exit_code == kToolchain;
  if (is_of_machine) machine_lacks_ = reference.exit_code;
  if (!reference.result.empty())
    diags.error("tune-run", Loc::in_file(options_.schedules.front()), "the schedule itself does not run: {}",
                reference.result);
  return reference.result.empty();
}

/// Runs each trial once, every second round backwards, since the first one may find the machine cooler. The first trial
/// is the reference. A trial that fails is excluded; if the first one fails, all are.
void ProgramTrials::run_round(std::vector<Trial*>& runners) {
  std::vector<Trial*> order = runners;
  if (++rounds_ % 2 == 0) std::reverse(order.begin(), order.end());
  for (Trial* trial : order) {
    const Timing timing = time(*trial);
    trial->result = timing.failure;
    trial->exit_code = timing.exit_code;
    if (timing.failure.empty()) trial->ms.push_back(timing.ms);
  }
  if (!runners.empty() && !runners.front()->result.empty()) runners.clear();
  std::erase_if(runners, [](const Trial* trial) { return !trial->result.empty(); });
  for (Trial* trial : runners) trial->ratio.push_back(trial->ms.back() / runners.front()->ms.back());
}

/// Rounds of all, of the faster half, of a quarter: the last one beside the first trial.
void ProgramTrials::race(std::vector<Trial>& trials) {
  std::vector<Trial*> runners;
  for (Trial& trial : trials)
    if (!trial.program.empty() && trial.result.empty()) runners.push_back(&trial);
  while (runners.size() > 1) {
    progress(options_, format("{} programs, {} rounds", runners.size(), kHeatRounds));
    for (size_t round = 0; round < kHeatRounds; ++round) run_round(runners);
    if (runners.size() <= 2) break;
    std::stable_sort(runners.begin() + 1, runners.end(),
                     [](const Trial* a, const Trial* b) { return median(a->ratio) < median(b->ratio); });
    runners.resize(1 + (runners.size() - 1 + 1) / 2);
  }
  for (Trial& trial : trials)
    if (!trial.ratio.empty() && trial.result.empty() && &trial != trials.data()) {
      trial.record = TrialRecord{median(trial.ms), interval_of(trial.ratio), false};
      records_.add(trial.key, *trial.record, trial.what);
    }
}

/// Pairs of runs, kept as a record that is final.
void ProgramTrials::race_in_pairs(Trial& winner, Trial& reference, int pairs) {
  winner.ratio.clear();
  progress(options_, format("{} pairs with '{}'", pairs, winner.what));
  std::vector<Trial*> runners{&reference, &winner};
  for (int pair = 0; pair < pairs && runners.size() == 2; ++pair) run_round(runners);
  if (runners.size() != 2) return;
  winner.record = TrialRecord{median(winner.ms), interval_of(winner.ratio), true};
  records_.add(winner.key, *winner.record, winner.what);
}

/// Builds the trials that no record knows, and the first one with them; false after reporting that it does not run.
bool ProgramTrials::build_and_compare(const std::string& name, std::vector<Trial>& trials, Diags& diags) {
  for (Trial& trial : trials) {
    const bool is_first = &trial == trials.data();
    if (!trial.result.empty() || (!is_first && (trial.record || !trial.program.empty()))) {
      if (is_first) return report_reference(trial, diags);
      continue;
    }
    progress(options_, format("{}: building {} of {}, {}", printable(name), &trial - trials.data() + 1, trials.size(),
                              trial.what));
    if (trial.program.empty()) build(trial);
    if (!trial.program.empty()) trial.result = first_difference(trial, trials.front());
    if (is_first && !(report_reference(trial, diags) && choose_iterations(trial, diags))) return false;
  }
  return true;
}

Trial* ProgramTrials::fastest(const std::string& name, std::vector<Trial>& trials, int pairs, Diags& diags) {
  const auto needs_program = [](const Trial& trial) { return trial.result.empty() && !trial.record; };
  if (std::any_of(trials.begin() + (trials.size() > 1 ? 1 : 0), trials.end(), needs_program)) {
    if (!build_and_compare(name, trials, diags)) return nullptr;
    race(trials);
  }
  Trial& reference = trials.front();
  Trial* winner = nullptr;
  for (Trial& trial : trials) {
    if (&trial == &reference || !trial.result.empty() || std::isnan(ratio_of(trial))) continue;
    if (!winner || ratio_of(trial) < ratio_of(*winner)) winner = &trial;
  }
  if (!winner) return report_reference(reference, diags) ? &reference : nullptr;
  if (!winner->record || !winner->record->is_final) {
    winner->record.reset();
    std::vector<Trial> two;  // those that have a program keep it
    if (reference.program.empty() || winner->program.empty()) {
      two = {reference, *winner};
      if (!build_and_compare(name, two, diags)) return nullptr;
      reference = two[0], *winner = two[1];
    }
    if (winner->result.empty()) race_in_pairs(*winner, reference, pairs);
  }
  if (!report_reference(reference, diags)) return nullptr;
  return winner->record && winner->record->ratio.high < 1 ? winner : &reference;
}

}  // namespace weftc
