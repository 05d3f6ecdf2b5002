// `weft tune`: measures, on this machine, the legal transforms of a model's collectives. Then it measures the legal
// strategies of the kernels that take most of the time, and writes the fastest schedule. A candidate is an ordinary
// schedule file, so that the result reproduces the tested program.
#include <algorithm>
#include <cstdio>

#include "cli/build_report.h"
#include "cli/commands.h"
#include "cli/comparison.h"
#include "cli/compile.h"
#include "cli/process.h"
#include "cli/profile_use.h"
#include "cli/transform_trials.h"
#include "cli/tune/budget.h"
#include "cli/tune/kernel_choice.h"
#include "cli/tune/kernel_trials.h"
#include "cli/tune/machine_load.h"
#include "cli/tune/program_trials.h"
#include "cli/tune/tune_table.h"
#include "frontend/schedule_writer.h"
#include "ir/base/contains.h"

namespace weftc {

namespace {

constexpr double kShare = 0.95;        // of the predicted time of kernels, for which strategies are tried
constexpr size_t kMostPrograms = 16;   // of one collective, or of one kernel that needs whole programs
constexpr size_t kMostOfPrograms = 4;  // kernels of that sort
constexpr double kMuchLoad = 0.2;      // by others: a second thread comes late, caches are theirs
constexpr int kPairsOfAll = 10;        // of the whole program, with what its kernels gained

class Tuner {
 public:
  explicit Tuner(const Options& options)
      : options_(options),
        cache_{work_.path() + "/headers", work_.path() + "/objects"},
        records_(options.output + ".trials"),
        known_before_(records_.known()),
        programs_(options_, work_, cache_, records_,
                  [this](const Choice& choice, Diags& diags) { return text_with(choice, diags); }),
        kernels_(options_, work_, cache_, records_) {}

  int run(Diags& diags);

 private:
  bool tune(Diags& diags);
  bool read(Diags& diags);
  std::optional<std::string> text_with(const Choice& choice, Diags& diags) const;
  std::unique_ptr<Compilation> lay_out(const std::vector<TransformStep>& steps, Diags& diags) const;
  bool choose_collectives(Diags& diags);
  bool tune_collective(const std::string& collective, Diags& diags);
  std::vector<Trial> trials_of(const std::string& collective, const Module& module);
  bool choose_kernels(std::vector<KernelCandidates>& kernels, Diags& diags);
  bool compile_chosen(Diags& diags);
  bool tune_kernels(std::vector<KernelCandidates>& kernels, Diags& diags);
  bool tune_kernel(const KernelCandidates& kernel, Diags& diags);
  bool tune_by_programs(const KernelCandidates& kernel, Diags& diags);
  void take_kernel(const KernelCandidates& kernel, const std::vector<KernelTrial>& trials);
  bool confirm(Diags& diags);
  bool choose(const std::string& name, std::vector<Trial>& trials, int pairs, Diags& diags);
  void tell_work(const std::vector<KernelCandidates>& kernels) const;
  void tell_estimate() const;
  void note_known(bool is_known) { ++(is_known ? known_ : measured_); }
  bool has_time() const;
  int write(Diags& diags) const;

  const Options& options_;
  OrderlyEnd end_;
  const Stopwatch watch_;
  const MachineLoad load_;
  WorkFolder work_;
  const BuildCache cache_;
  TrialRecords records_;
  const size_t known_before_;
  ProgramTrials programs_;
  KernelTrials kernels_;
  std::string base_;  // the schedule's text
  std::vector<std::string> collectives_;
  Choice chosen_;
  std::unique_ptr<Compilation> before_;    // the transforms
  std::unique_ptr<Compilation> compiled_;  // of what is chosen for collectives
  struct Gain {
    KernelPin pin;
    std::string comment;
    double seconds;  // of an invocation
  };
  std::vector<Gain> gains_;
  TuneWork left_;
  BuildTimes times_ = kUsualTimes;
  double kernel_seconds_ = 0;  // of programs of kernels, so far
  int timed_kernels_ = 0;
  size_t known_ = 0, measured_ = 0, pruned_ = 0;
  TuneTable table_;
};

/// The schedule's text; reports where nothing can be added to it, else all candidates would fail in turn.
bool Tuner::read(Diags& diags) {
  const std::string& path = options_.schedules.front();
  const auto given = options_.schedule_texts.find(path);
  base_ = given == options_.schedule_texts.end() ? read_file(path).value_or("") : given->second;
  return text_with({{{FuseStep{{}, "any"}, {}}}, {{"any", "rows", {}, {}, {}, {}}}, {}}, diags).has_value();
}

/// The base schedule with additions; nullopt after reporting.
std::optional<std::string> Tuner::text_with(const Choice& choice, Diags& diags) const {
  const std::string& path = options_.schedules.front();
  const std::optional<std::string> text = with_transforms(path, base_, choice.steps, diags);
  return text ? with_pins(path, *text, choice.pins, diags, choice.comments) : std::nullopt;
}

std::unique_ptr<Compilation> Tuner::lay_out(const std::vector<TransformStep>& steps, Diags& diags) const {
  if (steps.empty()) return compile_transforms(options_, *before_, diags);
  const std::optional<std::string> text = text_with({steps, {}, {}}, diags);
  return text ? compile_transforms(with_schedule(options_, *text), *before_, diags) : nullptr;
}

bool Tuner::choose_collectives(Diags& diags) {
  before_ = compile_before_transforms(options_, diags);
  const std::unique_ptr<Compilation> c = before_ ? lay_out({}, diags) : nullptr;
  if (!c) return false;
  warn_of_unused_profile(*c, options_, diags);
  std::vector<std::string> outputs;
  for (const auto& output : c->module.graph.outputs()) outputs.push_back(output.name);
  programs_.set_outputs(std::move(outputs), tolerance_of(options_, c->module.graph));
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

/// All legal transforms of a collective after the chosen steps, in the cost model's order.
std::vector<Trial> Tuner::trials_of(const std::string& collective, const Module& module) {
  const TextWithSteps text = [&](const auto& steps, Diags& diags) { return text_with({steps, {}, {}}, diags); };
  std::vector<Trial> trials;
  for (const Candidate& candidate :
       legal_transforms(options_, module, collective, options_.chunks, chosen_.steps, text, *before_))
    trials.push_back({candidate.what, {candidate.steps, {}, {}}});
  return trials;
}

bool Tuner::tune_collective(const std::string& collective, Diags& diags) {
  const std::unique_ptr<Compilation> c = lay_out(chosen_.steps, diags);
  if (!c) return false;
  std::vector<Trial> trials = trials_of(collective, c->module);
  if (trials.empty()) {
    table_.add(collective, "part of what was chosen above", "");
    return true;
  }
  programs_.predict(trials);
  const size_t all = trials.size();
  if (!options_.is_all) keep_promising(trials, kMostPrograms);
  pruned_ += all - trials.size();
  progress(options_, format("{}: {} of {} programs are tried, those with the shortest predicted timelines",
                            printable(collective), trials.size(), all));
  left_.programs = trials.size();
  tell_estimate();
  return choose(collective, trials, options_.pairs, diags);
}

bool Tuner::compile_chosen(Diags& diags) {
  Options options = options_;
  options.quiet = true;
  if (!chosen_.steps.empty()) options.schedules = {programs_.schedule_file(chosen_, diags)};
  compiled_ = diags.ok() ? compile_graph(options, diags) : nullptr;
  return compiled_ != nullptr;
}

/// The kernels that take most of the time with the chosen transforms, or those that the command line names.
bool Tuner::choose_kernels(std::vector<KernelCandidates>& kernels, Diags& diags) {
  if (options_.kernels.empty() && !options_.collectives.empty()) return true;
  if (!compile_chosen(diags)) return false;
  const Compilation& c = *compiled_;
  const std::optional<Plan> plan = plan_kernels(c.module, c.target, diags, c.schedule.kernels);
  if (!plan) return false;
  kernels = kernel_candidates(*plan, c.module, CostModel(*plan, c.module, c.machine),
                              options_.is_all ? Reach::All : Reach::Promising);
  if (has_one_thread(options_)) drop_one_thread(kernels);
  check_named_kernels(options_, *plan, kernels, diags);
  const Loc loc = Loc::in_file(options_.schedules.front());
  if (collectives_.empty() && kernels.empty() && options_.kernels.empty())
    diags.error("tune-nothing", loc, "the model has no collective under this schedule, and no kernel to choose for");
  const size_t all = kernels.size();
  if (options_.kernels.empty())
    kernels.resize(options_.is_all ? kernels.size() : costliest(kernels, kShare));
  else
    std::erase_if(kernels, [&](const auto& kernel) { return !contains(options_.kernels, kernel.kernel); });
  if (options_.kernels.empty() && all > 0)
    progress(options_, format("{} of {} kernels with a choice take {} % of their predicted time: these are tried",
                              kernels.size(), all, static_cast<int>(100 * kShare)));
  return diags.ok();
}

/// Prints the planned work for kernels.
void Tuner::tell_work(const std::vector<KernelCandidates>& kernels) const {
  size_t candidates = 0, pruned = 0;
  for (const KernelCandidates& kernel : kernels) candidates += kernel.pins.size(), pruned += kernel.pruned;
  progress(options_, format("{} candidates for {} kernels; {} are pruned, predicted to be several times slower",
                            candidates, kernels.size(), pruned));
}

void Tuner::tell_estimate() const {
  const double seconds = estimated_seconds(left_, times_, 2 * kPairsOfAll);
  std::string text = format("about {} to go", duration_text(seconds));
  if (timed_kernels_ == 0 && programs_.seconds_of_build() == 0) text += ", a guess before the first build";
  if (known_before_ > 0) text += format("; what {} knows takes no time", printable(records_.path()));
  if (options_.budget > 0 && seconds > options_.budget - watch_.seconds())
    text += format(": --budget ends it after {}", duration_text(options_.budget));
  progress(options_, text);
}

/// Whether there is time for one more kernel and for the measurement of the whole program after it, which gets at most
/// half of the budget.
bool Tuner::has_time() const {
  if (end_.is_over()) return false;
  TuneWork rest;
  rest.programs = left_.programs;
  const double whole = std::min(estimated_seconds(rest, times_, 0), options_.budget / 2);
  return Budget(options_.budget).allows(times_.kernel_program, whole, watch_.seconds());
}

/// Records a kernel's gain, with its launch times before and after as a comment.
void Tuner::take_kernel(const KernelCandidates& kernel, const std::vector<KernelTrial>& trials) {
  const KernelTrial* best = fastest_of(trials);
  table_.add(kernel.kernel, trials, best ? best : trials.data());
  if (!best) return;
  const std::string comment =
      format("{} ms a launch before, {} ms after", decimals(best->ms / best->ratio.mean, 4), decimals(best->ms, 4));
  gains_.push_back({best->pin, comment, kernel.seconds * (1 - best->ratio.mean)});
}

bool Tuner::tune_kernel(const KernelCandidates& kernel, Diags& diags) {
  std::vector<KernelTrial> trials(1);
  for (const KernelPin& pin : kernel.pins) trials.push_back({pin});
  const Stopwatch watch;
  if (!kernels_.measure(*compiled_, kernel.kernel, trials, diags)) return false;
  for (const KernelTrial& trial : trials)
    if (&trial != trials.data()) note_known(trial.is_known);
  take_kernel(kernel, trials);
  if (!trials.back().is_known) {
    kernel_seconds_ += std::max(0.5, watch.seconds() - static_cast<double>(trials.size()) * times_.candidate);
    times_.kernel_program = kernel_seconds_ / ++timed_kernels_;
  }
  return true;
}

/// A kernel that cannot run by itself.
bool Tuner::tune_by_programs(const KernelCandidates& kernel, Diags& diags) {
  std::vector<Trial> trials = {{"as it is", chosen_}};
  for (const KernelPin& pin : kernel.pins) {
    trials.push_back({strategy_text(pin), chosen_});
    trials.back().choice.pins.push_back(pin);
  }
  programs_.predict(trials);
  if (!options_.is_all) keep_promising(trials, kMostPrograms);
  return choose(kernel.kernel, trials, options_.pairs, diags);
}

bool Tuner::tune_kernels(std::vector<KernelCandidates>& kernels, Diags& diags) {
  if (kernels.empty()) return true;
  tell_work(kernels);
  const std::optional<Plan> plan =
      plan_kernels(compiled_->module, compiled_->target, diags, compiled_->schedule.kernels);
  if (!plan) return false;
  const auto is_lone = [&](const KernelCandidates& kernel) {
    return !options_.target.has_grid() && lone_refusal({&*plan, step_of_kernel(*plan, kernel.kernel)}).empty();
  };
  const auto others = std::stable_partition(kernels.begin(), kernels.end(), is_lone);
  left_ = {static_cast<size_t>(others - kernels.begin()), 0, 2, 0};
  for (auto kernel = kernels.begin(); kernel != others; ++kernel) left_.candidates += kernel->pins.size();
  tell_estimate();
  for (auto kernel = kernels.begin(); kernel != others && has_time(); ++kernel) {
    progress(options_, format("{}: {} candidates", printable(kernel->kernel), kernel->pins.size()));
    if (!tune_kernel(*kernel, diags)) return end_.is_over();
    --left_.kernel_programs, left_.candidates -= kernel->pins.size();
    if (kernel == kernels.begin() || left_.kernel_programs % 5 == 0) tell_estimate();
  }
  if (left_.kernel_programs > 0 && !end_.is_over())
    progress(options_, format("no time is left for {} kernels", left_.kernel_programs));
  for (auto kernel = others; kernel != kernels.end() && kernel - others < std::ptrdiff_t{kMostOfPrograms}; ++kernel)
    if (!end_.is_over() && !tune_by_programs(*kernel, diags)) return false;
  return true;
}

/// Builds the whole program with what kernels gained, and keeps as much of it as is not slower there, where neighbours
/// lie in memory as these strategies want it, and caches hold other things.
bool Tuner::confirm(Diags& diags) {
  std::stable_sort(gains_.begin(), gains_.end(), [](const Gain& a, const Gain& b) { return a.seconds > b.seconds; });
  const Choice before = chosen_;
  for (size_t count = gains_.size(); count > 0; count /= 2) {
    chosen_ = before;
    for (size_t g = 0; g < count; ++g) {
      chosen_.comments.resize(chosen_.pins.size());
      chosen_.pins.push_back(gains_[g].pin), chosen_.comments.push_back(gains_[g].comment);
    }
    if (end_.is_over()) {
      table_.add("the whole program", format("with {} entries for kernels: not run in time", count), "chosen");
      return true;
    }
    std::vector<Trial> trials = {{"as it was", before}, {format("with {} entries for kernels", count), chosen_}};
    programs_.predict(trials);
    const Trial* fastest = programs_.fastest("the whole program", trials, std::min(options_.pairs, kPairsOfAll), diags);
    if (end_.is_over()) return true;
    if (!fastest) return false;
    const bool is_kept = trials[1].result.empty() && trials[1].record && trials[1].record->ratio.low <= 1;
    table_.add("the whole program", trials, is_kept ? &trials[1] : &trials[0]);
    if (is_kept) return true;
  }
  chosen_ = before;
  return true;
}

/// Builds and times the trials, of which the first is the current choice. The fastest becomes the new choice.
bool Tuner::choose(const std::string& name, std::vector<Trial>& trials, int pairs, Diags& diags) {
  for (const Trial& trial : trials)
    if (&trial != trials.data()) note_known(trial.record.has_value());
  const Trial* fastest = programs_.fastest(name, trials, pairs, diags);
  if (end_.is_over()) return true;
  if (!fastest) return false;
  times_.program = std::max(times_.program, programs_.seconds_of_build());
  table_.add(name, trials, fastest);
  chosen_ = fastest->choice;
  return true;
}

int Tuner::write(Diags& diags) const {
  const std::string table = table_.text();
  std::fputs(table.c_str(), stdout);
  std::string text =
      "# What was tried, the time of an invocation (of a kernel: of a launch), and its ratio to the first:\n";
  for (const std::string& line : split(table, '\n'))
    if (!line.empty()) text += "#" + line + "\n";
  const std::optional<std::string> schedule = text_with(chosen_, diags);
  if (!schedule) return finish(diags);
  if (const std::string why = write_file(options_.output, text + *schedule); !why.empty())
    diags.error("schedule-unwritable", Loc::in_file(options_.output), "the schedule cannot be written: {}", why);
  if (const double others = load_.of_others(); measured_ > 0 && others > kMuchLoad)
    progress(options_, format("others used {} % of the machine meanwhile: another schedule may be faster without them",
                              static_cast<int>(100 * others)));
  progress(options_,
           format("{} of {} candidates were known from {}", known_, known_ + measured_, printable(records_.path())));
  return finish(diags);
}

bool Tuner::tune(Diags& diags) {
  if (!check_output(options_, diags) || !choose_collectives(diags) || !read(diags)) return false;
  for (const std::string& collective : collectives_)
    if (!end_.is_over() && !tune_collective(collective, diags)) return false;
  std::vector<KernelCandidates> kernels;
  if (end_.is_over()) return true;
  if (!choose_kernels(kernels, diags) || !tune_kernels(kernels, diags)) return false;
  return confirm(diags);
}

int Tuner::run(Diags& diags) {
  if (options_.budget > 0) end_.end_in(options_.budget);
  const bool is_done = tune(diags);
  const bool is_over = end_.is_over();
  if (is_over)
    progress(options_, end_.signal() ? "interrupted: the best so far is written"
                                     : "the budget is spent: the best so far is written");
  if (!is_done && !is_over) {
    const int code = finish(diags), of_kernels = kernels_.exit_code();
    const bool is_of_machine = of_kernels == kEnvironment || of_kernels == kToolchain;
    return programs_.machine_lacks() ? programs_.machine_lacks() : is_of_machine ? of_kernels : code;
  }
  Diags of_writing;
  const int code = write(is_over ? of_writing : diags);
  if (end_.signal()) {
    std::fflush(stdout);
    end_by_signal(end_.signal());
  }
  return code;
}

}  // namespace

int run_tune(const Options& options) {
  Diags diags;
  return Tuner(options).run(diags);
}

}  // namespace weftc
