// `weft tune`: tries on the machine at hand the transforms that are legal for a model's collectives, then the
// strategies that are legal for the kernels that cost most, and writes the schedule that was fastest. A candidate is a
// schedule file like any other, so that what was tried is what is replayed.
#include <algorithm>
#include <cstdio>

#include "cli/build.h"
#include "cli/commands.h"
#include "cli/comparison.h"
#include "cli/compile.h"
#include "cli/process.h"
#include "cli/table.h"
#include "cli/timed_run.h"
#include "frontend/schedule_writer.h"
#include "frontend/tensor_file.h"
#include "ir/base/contains.h"
#include "passes/plan/kernel_candidates.h"
#include "passes/transform/transform_candidates.h"

namespace weftc {

namespace {

constexpr double kMeasuredMs = 50;                        // a run is timed for about so long
constexpr size_t kHeatRounds = 3;                         // before the slower half of the candidates is dropped
constexpr int kFewIterations = 3, kManyIterations = 200;  // of a run that is timed
constexpr int kWrongInput = 1;                            // exit code of a program whose state would outgrow its bound
constexpr size_t kMostKernels = 4;                        // whose strategies are tried, unless they are named

/// What is added to the schedule.
struct Choice {
  std::vector<TransformStep> steps;
  std::vector<KernelPin> pins;
};

/// A candidate on its way: a schedule, its executable, and how long that takes.
struct Trial {
  std::string what;
  Choice choice;
  std::string program = {};        // empty: it did not come so far as to be timed
  int exit_code = 0;               // of what failed
  std::string result = {};         // for the table
  std::vector<double> ms = {};     // of a run, median
  std::vector<double> ratio = {};  // to the first trial, in the same round
};

std::string decimals(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

void write_schedule(const std::string& path, const std::string& text, Diags& diags) {
  if (const std::string why = write_file(path, text); !why.empty())
    diags.error("schedule-unwritable", Loc::in_file(path), "the schedule cannot be written: {}", why);
}

class Tuner {
 public:
  explicit Tuner(const Options& options) : options_(options) {}

  int run(Diags& diags);

 private:
  bool tune(Diags& diags);
  bool read(Diags& diags);
  std::optional<std::string> text_with(const Choice& choice, Diags& diags) const;
  std::string schedule_file(const Choice& choice, Diags& diags) const;
  std::unique_ptr<Compilation> lay_out(const std::vector<TransformStep>& steps, Diags& diags) const;
  bool choose_collectives(Diags& diags);
  bool tune_collective(const std::string& collective, Diags& diags);
  void check_kernels(const Plan& plan, const std::vector<KernelCandidates>& kernels, Diags& diags) const;
  bool choose_kernels(std::vector<KernelCandidates>& kernels, Diags& diags);
  bool tune_kernel(const KernelCandidates& kernel, Diags& diags);
  bool choose(const std::string& name, std::vector<Trial>& trials, Diags& diags);
  void build(Trial& trial);
  std::string first_difference(Trial& trial, const Trial& reference);
  Timing time(const Trial& trial) const { return time_run(trial.program, iterations_, options_.run_args); }
  Timing time_within_bounds(const Trial& reference);
  bool choose_iterations(Trial& reference, Diags& diags);
  bool report_reference(const Trial& reference, Diags& diags);
  void run_round(std::vector<Trial*>& runners);
  Trial* race(std::vector<Trial>& trials);
  bool is_faster(Trial& winner, Trial& reference);
  void add_rows(const std::string& name, const std::vector<Trial>& trials, const Trial* chosen);
  int write(Diags& diags) const;

  const Options& options_;
  double tolerance_ = 0;
  WorkFolder work_;
  std::string base_;  // the schedule's text
  std::vector<std::string> collectives_;
  Choice chosen_;
  std::vector<std::string> outputs_;
  int machine_lacks_ = 0;  // the exit code where the schedule itself cannot be built or run on this machine
  int built_ = 0, iterations_ = kFewIterations, rounds_ = 0;
  std::vector<std::vector<std::string>> rows_ = {{"collective or kernel", "how", "ms", "of the first", "result"}};
};

/// The schedule's text; reports where nothing can be added to it, else all candidates would fail in turn.
bool Tuner::read(Diags& diags) {
  const std::string& path = options_.schedules.front();
  const auto piped = options_.piped_schedules.find(path);
  base_ = piped == options_.piped_schedules.end() ? read_file(path).value_or("") : piped->second;
  return text_with({{{FuseStep{{}, "any"}, {}}}, {{"any", "rows", {}, {}, {}, {}}}}, diags).has_value();
}

/// The base schedule with what is added to it; nothing after reporting.
std::optional<std::string> Tuner::text_with(const Choice& choice, Diags& diags) const {
  const std::string& path = options_.schedules.front();
  const std::optional<std::string> text = with_transforms(path, base_, choice.steps, diags);
  return text ? with_pins(path, *text, choice.pins, diags) : std::nullopt;
}

/// A file with that text; "" after reporting.
std::string Tuner::schedule_file(const Choice& choice, Diags& diags) const {
  const std::optional<std::string> text = text_with(choice, diags);
  if (!text) return "";
  const std::string path = work_.path() + "/candidate.yaml";
  write_schedule(path, *text, diags);
  return path;
}

std::unique_ptr<Compilation> Tuner::lay_out(const std::vector<TransformStep>& steps, Diags& diags) const {
  Options until = options_;
  until.stop_after = "apply-transforms";
  until.quiet = true;
  if (!steps.empty()) until.schedules = {schedule_file({steps, {}}, diags)};
  return diags.ok() ? compile_graph(until, diags) : nullptr;
}

bool Tuner::choose_collectives(Diags& diags) {
  const std::unique_ptr<Compilation> c = lay_out({}, diags);
  if (!c) return false;
  for (const auto& output : c->module.graph.outputs()) outputs_.push_back(output.name);
  tolerance_ = tolerance_of(options_, c->module.graph);
  const std::vector<std::string> known = tunable_collectives(c->module);
  collectives_ = options_.collectives;
  if (options_.collectives.empty() && options_.kernels.empty()) collectives_ = known;
  const Loc loc = Loc::in_file(options_.schedules.front());
  for (const std::string& name : collectives_)
    if (transform_candidates(c->module, name, {}, [](const auto&) { return false; }).empty())
      diags.error("tune-no-collective", loc, "'{}' is no collective of the model under this schedule{}; there are: {}",
                  printable(name), did_you_mean(name, known), known.empty() ? "none" : printable(join(known, ", ")));
  return diags.ok();
}

void Tuner::build(Trial& trial) {
  Diags diags;
  Options options = options_;
  options.quiet = true;
  options.schedules = {schedule_file(trial.choice, diags)};
  options.output = format("{}/{}", work_.path(), built_++);
  const std::unique_ptr<Compilation> c = diags.ok() ? compile_graph(options, diags) : nullptr;
  const bool is_planned = c && compile_plan(*c, options, diags);
  trial.exit_code = is_planned ? compile_program(*c, options, diags) : diags.exit_code();
  if (trial.exit_code == 0)
    trial.program = options.output;
  else
    trial.result = "not built: " + (diags.all().empty() ? "the compiler failed" : diags.all().front().id);
}

/// One untimed run, whose outputs must be those of the reference; why it is out of the race, or "".
std::string Tuner::first_difference(Trial& trial, const Trial& reference) {
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

/// Times a run of `iterations_` invocations, or of fewer: a state that grows in each of them may have no room for so
/// many, and only the program knows by how much it grows.
Timing Tuner::time_within_bounds(const Trial& reference) {
  Timing timing = time(reference);
  while (timing.exit_code == kWrongInput && iterations_ > 1) {
    iterations_ /= 2;
    timing = time(reference);
  }
  return timing;
}

/// Chooses the iterations of a run, so that it is timed for about kMeasuredMs; false after reporting that the reference
/// cannot be timed.
bool Tuner::choose_iterations(Trial& reference, Diags& diags) {
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
bool Tuner::report_reference(const Trial& reference, Diags& diags) {
  const bool is_of_machine = reference.exit_code == kEnvironment || reference.exit_code == kToolchain;
  if (is_of_machine) machine_lacks_ = reference.exit_code;
  if (!reference.result.empty())
    diags.error("tune-run", Loc::in_file(options_.schedules.front()), "the schedule itself does not run: {}",
                reference.result);
  return reference.result.empty();
}

/// Each runner once, every second round backwards, since who runs first may find the machine cooler. The first of them
/// is what the others are compared with. One that fails is out, and all are if the first one does.
void Tuner::run_round(std::vector<Trial*>& runners) {
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

/// Rounds of all, of the faster half, of a quarter: the last one beside the first trial. None: all others failed.
Trial* Tuner::race(std::vector<Trial>& trials) {
  std::vector<Trial*> runners;
  for (Trial& trial : trials)
    if (!trial.program.empty() && trial.result.empty()) runners.push_back(&trial);
  while (runners.size() > 1) {
    progress(options_, format("{} candidates, {} rounds", runners.size(), kHeatRounds));
    for (size_t round = 0; round < kHeatRounds; ++round) run_round(runners);
    if (runners.size() <= 2) break;
    std::stable_sort(runners.begin() + 1, runners.end(),
                     [](const Trial* a, const Trial* b) { return median(a->ratio) < median(b->ratio); });
    runners.resize(1 + (runners.size() - 1 + 1) / 2);
  }
  return runners.size() > 1 ? runners[1] : nullptr;
}

/// Pairs of runs; faster only if the whole interval of the ratio says so.
bool Tuner::is_faster(Trial& winner, Trial& reference) {
  winner.ratio.clear();
  progress(options_, format("{} pairs with '{}'", options_.pairs, winner.what));
  std::vector<Trial*> runners{&reference, &winner};
  for (int pair = 0; pair < options_.pairs && runners.size() == 2; ++pair) run_round(runners);
  return runners.size() == 2 && interval_of(winner.ratio).high < 1;
}

void Tuner::add_rows(const std::string& name, const std::vector<Trial>& trials, const Trial* chosen) {
  for (const Trial& trial : trials) {
    std::string ratio = trial.ratio.empty() ? "" : decimals(median(trial.ratio), 3);
    if (trial.ratio.size() >= static_cast<size_t>(options_.pairs)) {
      const Interval i = interval_of(trial.ratio);
      ratio = format("{} ({} .. {})", decimals(i.mean, 3), decimals(i.low, 3), decimals(i.high, 3));
    }
    rows_.push_back({printable(name), trial.what, trial.ms.empty() ? "" : decimals(median(trial.ms), 3),
                     &trial == &trials.front() ? "" : ratio, &trial == chosen ? "chosen" : trial.result});
  }
}

bool Tuner::tune_collective(const std::string& collective, Diags& diags) {
  const std::unique_ptr<Compilation> c = lay_out(chosen_.steps, diags);
  if (!c) return false;
  const auto after_chosen = [&](const std::vector<TransformStep>& steps) {
    std::vector<TransformStep> all = chosen_.steps;
    all.insert(all.end(), steps.begin(), steps.end());
    return all;
  };
  const IsLegal is_legal = [&](const std::vector<TransformStep>& steps) {
    Diags refused;
    return lay_out(after_chosen(steps), refused) != nullptr;
  };
  std::vector<Trial> trials;
  for (const Candidate& candidate : transform_candidates(c->module, collective, options_.chunks, is_legal))
    trials.push_back({candidate.what, {after_chosen(candidate.steps), {}}});
  if (trials.empty()) {
    rows_.push_back({printable(collective), "part of what was chosen above", "", "", ""});
    return true;
  }
  return choose(collective, trials, diags);
}

/// Reports kernels that the command line names and for which there is nothing to choose.
void Tuner::check_kernels(const Plan& plan, const std::vector<KernelCandidates>& kernels, Diags& diags) const {
  std::vector<std::string> known;
  for (const KernelCandidates& kernel : kernels) known.push_back(kernel.kernel);
  const Loc file = Loc::in_file(options_.schedules.front());
  for (const std::string& name : options_.kernels) {
    if (contains(known, name)) continue;
    const auto pinned = std::find_if(plan.kernels.begin(), plan.kernels.end(), [&](const Kernel& kernel) {
      return kernel.name == name && kernel.pin.kind != Loc::Kind::None;
    });
    if (pinned != plan.kernels.end())
      diags.error("tune-pinned-kernel", file, "the schedule pins kernel '{}' to {}: nothing is left to try",
                  printable(name), strategy_text(pinned->strategy));
    else
      diags.error("tune-no-kernel", file, "'{}' is no kernel with another strategy to try{}; there are: {}",
                  printable(name), did_you_mean(name, known), known.empty() ? "none" : join(known, ", "));
  }
}

/// The costliest kernels under what is chosen for the collectives, or those that the command line names.
bool Tuner::choose_kernels(std::vector<KernelCandidates>& kernels, Diags& diags) {
  if (options_.kernels.empty() && !options_.collectives.empty()) return true;
  Options options = options_;
  options.quiet = true;
  options.schedules = {schedule_file(chosen_, diags)};
  const std::unique_ptr<Compilation> c = diags.ok() ? compile_graph(options, diags) : nullptr;
  if (!c || !compile_plan(*c, options, diags)) return false;
  kernels = kernel_candidates(c->plan, c->module, CostModel(c->plan, c->module, ceilings_of(c->plan.target)));
  check_kernels(c->plan, kernels, diags);
  const Loc loc = Loc::in_file(options_.schedules.front());
  if (collectives_.empty() && kernels.empty() && options_.kernels.empty())
    diags.error("tune-nothing", loc, "the model has no collective under this schedule, and no kernel to choose for");
  if (options_.kernels.empty())
    kernels.resize(std::min(kernels.size(), kMostKernels));
  else
    std::erase_if(kernels, [&](const auto& kernel) { return !contains(options_.kernels, kernel.kernel); });
  return diags.ok();
}

bool Tuner::tune_kernel(const KernelCandidates& kernel, Diags& diags) {
  std::vector<Trial> trials = {{"as it is", chosen_}};
  for (const KernelPin& pin : kernel.pins) {
    trials.push_back({strategy_text(pin), chosen_});
    trials.back().choice.pins.push_back(pin);
  }
  return choose(kernel.kernel, trials, diags);
}

/// Builds and times the trials, of which the first is what is chosen so far; the fastest is what is chosen then.
bool Tuner::choose(const std::string& name, std::vector<Trial>& trials, Diags& diags) {
  for (Trial& trial : trials) {
    progress(options_, format("{}: building {} of {}, {}", printable(name), &trial - trials.data() + 1, trials.size(),
                              trial.what));
    build(trial);
    if (!trial.program.empty()) trial.result = first_difference(trial, trials.front());
    if (!report_reference(trials.front(), diags)) return false;
  }
  Trial& reference = trials.front();
  if (!choose_iterations(reference, diags)) return false;
  Trial* winner = race(trials);
  if (winner && !is_faster(*winner, reference)) winner = nullptr;
  if (!report_reference(reference, diags)) return false;
  add_rows(name, trials, winner ? winner : &reference);
  if (winner) chosen_ = winner->choice;
  return true;
}

int Tuner::write(Diags& diags) const {
  const std::string table = table_text(rows_);
  std::fputs(table.c_str(), stdout);
  std::string text = "# What was tried, the time of an invocation, and its ratio to the first of its kind:\n";
  for (const std::string& line : split(table, '\n'))
    if (!line.empty()) text += "#" + line + "\n";
  const std::optional<std::string> schedule = text_with(chosen_, diags);
  if (!schedule) return finish(diags);
  write_schedule(options_.output, text + *schedule, diags);
  return finish(diags);
}

bool Tuner::tune(Diags& diags) {
  if (!check_output(options_, diags) || !choose_collectives(diags) || !read(diags)) return false;
  for (const std::string& collective : collectives_)
    if (!tune_collective(collective, diags)) return false;
  std::vector<KernelCandidates> kernels;
  if (!choose_kernels(kernels, diags)) return false;
  return std::all_of(kernels.begin(), kernels.end(),
                     [&](const KernelCandidates& kernel) { return tune_kernel(kernel, diags); });
}

int Tuner::run(Diags& diags) {
  if (tune(diags)) return write(diags);
  const int code = finish(diags);
  return machine_lacks_ ? machine_lacks_ : code;
}

}  // namespace

int run_tune(const Options& options) {
  Diags diags;
  return Tuner(options).run(diags);
}

}  // namespace weftc
