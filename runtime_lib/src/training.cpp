#include "training.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "checkpoint.h"
#include "checkpoint_folder.h"
#include "checks.h"
#include "finite_check.h"
#include "inputs.h"
#include "lengths.h"
#include "manifest.h"
#include "output_file.h"
#include "report.h"
#include "tensors.h"
#include "training_data.h"
#include "wait.h"

namespace weft {

namespace {

/// Rank 0's figures of a step, or of an evaluation after it.
struct StepFigures {
  int64_t step = 0;  // from 1
  double loss = 0, rate = 0, ms = 0;
  std::optional<double> norm;
  std::vector<double> others;   // as the executable lists them
  std::vector<double> updates;  // those that an evaluation does not have
};

double number_in(const Port& port, const char* bytes) {
  if (port.dtype == DType::F64) return *reinterpret_cast<const double*>(bytes);
  if (port.dtype == DType::F32) return double(*reinterpret_cast<const float*>(bytes));
  fail(kBug, "'%s' is no float", port.name);
}

/// A number of JSON, which has no infinities.
std::string number_json(double number) { return std::isfinite(number) ? text("%.9g", number) : "null"; }

/// `, "accuracy": 0.1`: each number under its name, which gets a prefix.
std::string numbers_json(std::span<const char* const> names, const std::vector<double>& numbers,
                         const std::string& prefix) {
  std::string json;
  for (size_t i = 0; i < names.size(); ++i)
    json += ", " + json_string(prefix + names[i]) + ": " + number_json(numbers[i]);
  return json;
}

/// `, "loss": 2.3, "accuracy": 0.1`: the loss and the other figures, whose names get a prefix.
std::string figures_json(const StepFigures& s, std::span<const char* const> names, const std::string& prefix) {
  return ", \"" + prefix + "loss\": " + number_json(s.loss) + numbers_json(names, s.others, prefix);
}

/// The part of an earlier run's log to keep: steps up to `step`, without the evaluation after it if that is repeated.
struct LogBegin {
  int64_t step = 0;
  bool evaluates_anew = false;
};

/// The log: lines of JSON, appended to the kept lines of earlier steps.
class Log {
 public:
  Log(const std::string& file, const LogBegin& begin, const Training& training)
      : names_(training.figures), updates_(training.updates) {
    if (file.empty()) return;
    if (may_hold_lines(file)) {
      OutputFile kept(file);  // a run that ends before its first step leaves the lines of the run before it
      if (begin.step > 0) kept.write(kept_lines(file, begin));
      kept.finish();
    }
    file_.reset(fopen(file.c_str(), "ae"));
    if (!file_) fail(kEnvironment, "cannot write %s: %s", file.c_str(), strerror(errno));
  }

  void write(const StepFigures& s, double samples, double tokens) {
    if (!file_) return;
    const std::string norm = s.norm ? ", \"grad_norm\": " + number_json(*s.norm) : "";
    const std::string speed = tokens > 0 ? text(", \"tokens_per_s\": %.6g", tokens) : "";
    const std::string line = text("{\"step\": %ld", long(s.step)) + figures_json(s, names_, "") +
                             ", \"rate\": " + number_json(s.rate) + norm + numbers_json(updates_, s.updates, "") +
                             text(", \"ms\": %.4f, \"samples_per_s\": %.6g", s.ms, samples) + speed + "}\n";
    write(line);
  }

  /// Means over all samples of an evaluation.
  void write_evaluation(const StepFigures& s, int64_t samples) {
    write(text("{\"step\": %ld", long(s.step)) + figures_json(s, names_, "eval_") +
          text(", \"eval_samples\": %ld, \"eval_ms\": %.4f}\n", long(samples), s.ms));
  }

 private:
  void write(const std::string& line) {
    if (!file_) return;
    if (fwrite(line.data(), 1, line.size(), file_.get()) != line.size() || fflush(file_.get()) != 0)
      fail(kEnvironment, "cannot write the log: %s", strerror(errno));
  }

  /// False for a pipe or a device: reading it would wait for a writer.
  static bool may_hold_lines(const std::string& file) {
    struct stat status = {};
    return stat(file.c_str(), &status) != 0 || S_ISREG(status.st_mode);
  }

  /// Drops later lines, since an aborted run may have continued after its last checkpoint.
  static std::string kept_lines(const std::string& file, const LogBegin& begin) {
    const std::unique_ptr<FILE, int (*)(FILE*)> in(fopen(file.c_str(), "re"), fclose);
    std::string kept;
    char* line = nullptr;
    size_t room = 0;
    long step = 0;
    while (in && getline(&line, &room, in.get()) > 0) {
      if (strchr(line, '\n') == nullptr) break;  // a writer that was killed leaves a part of a line
      if (sscanf(line, "{\"step\": %ld", &step) != 1 || step > begin.step) continue;
      const bool is_evaluation = strstr(line, "\"eval_loss\": ") != nullptr;
      if (step < begin.step || !is_evaluation || !begin.evaluates_anew) kept += line;
    }
    free(line);
    return kept;
  }

  std::unique_ptr<FILE, int (*)(FILE*)> file_{nullptr, fclose};
  const std::span<const char* const> names_;    // of the other figures
  const std::span<const char* const> updates_;  // and of those that an evaluation does not have
};

std::string duration_text(double seconds) {
  if (seconds < 60) return text("%.0f s", seconds);
  if (seconds < 3600) return text("%d min %02d s", int(seconds) / 60, int(seconds) % 60);
  return text("%d h %02d min", int(seconds) / 3600, int(seconds) / 60 % 60);
}

Samples samples_of_evaluation(const Options& options) { return {"--eval-data", options.eval_data, false, 0, true}; }

Samples samples_of_training(const Options& options) {
  return {"--data", options.data, options.shuffles, options.shuffle_seed};
}

/// The training as one rank runs it.
class Trainer {
 public:
  Trainer(RankBase& rank, const Options& options)
      : rank_(rank),
        options_(options),
        data_(rank.executable, options, samples_of_training(options)),
        inputs_(rank, options),
        states_(rank, options) {
    const Training& training = *rank.executable.training;
    const std::vector<const Port*> outputs = distinct_ports(rank.executable, &Program::outputs);
    const auto output = [&](std::string_view name) {
      return *std::find_if(outputs.begin(), outputs.end(), [&](const Port* port) { return port->name == name; });
    };
    loss_ = output(training.loss), rate_ = output(training.rate);
    if (training.norm != nullptr) norm_ = output(training.norm);
    for (const char* name : training.figures) others_.push_back(output(name));
    for (const char* name : training.updates) updates_.push_back(output(name));
    if (!options.eval_data.empty()) evaluation_.emplace(rank.executable, options, samples_of_evaluation(options));
    if (rank.rank == 0 && !options.checkpoint.empty()) folder_.emplace(options.checkpoint);
    if (!options.resume.empty()) resume();
    last_ = options.steps > 0 ? options.steps : int64_t{std::max(1, options.epochs)} * data_.steps_per_epoch();
    begins_with_evaluation_ = evaluation_ && (done_ >= last_ || (begins_with_evaluation_ && is_evaluated(done_)));
  }

  /// The exit code.
  int run();

 private:
  void resume();
  StepFigures step(int64_t number);
  void feed(const std::vector<WholeTensor>& batch, int64_t number);
  std::optional<StepFigures> means_of_evaluation(int64_t step);
  bool evaluate(int64_t step, std::optional<Log>& log);
  void take_steps(std::optional<Log>& log);
  void save(int64_t step, bool evaluation_is_due);
  void decide_end();
  int end_early() const;
  void print_summary() const;
  double output(const Port* port);
  void report(const StepFigures& figures, Log& log);
  void print_progress(const StepFigures& figures, double per_second) const;
  void print_what_is_left_out() const;
  bool is_evaluated(int64_t step) const {
    return evaluation_ && (step == last_ || (options_.eval_every > 0 && step % options_.eval_every == 0));
  }
  bool is_due(int64_t step) const { return step == last_ || (options_.every > 0 && step % options_.every == 0); }
  /// All ranks get the same answer between two gathered figures.
  bool is_ending() const { return rank_.world.end_agreed().load() != 0; }

  RankBase& rank_;
  const Options& options_;
  const Port *loss_ = nullptr, *rate_ = nullptr, *norm_ = nullptr;  // outputs
  std::vector<const Port*> others_, updates_;
  TrainingData data_;
  std::optional<TrainingData> evaluation_;
  std::optional<CheckpointFolder> folder_;  // on rank 0
  Inputs inputs_;
  States states_;
  int64_t done_ = 0, last_ = 0;
  int64_t first_ = 0;                    // steps that earlier runs have done
  bool begins_with_evaluation_ = false;  // of the last of these
  bool leaves_evaluation_ = false;       // to the run that goes on
  std::vector<double> ms_;
  double last_loss_ = 0;
  bool has_warned_ = false;               // of a loss that is no number
  std::optional<StepFigures> evaluated_;  // the last time, on rank 0
};

void Trainer::resume() {
  const Progress progress = read_checkpoint(rank_.executable, checkpoint_folder(options_.resume));
  if (progress.shuffles != options_.shuffles || progress.seed != options_.shuffle_seed)
    fail(kWrongInput, "--resume %s: its samples come %s: give the same --shuffle", options_.resume.c_str(),
         progress.shuffles
             ? text("in the order of --shuffle %llu", static_cast<unsigned long long>(progress.seed)).c_str()
             : "in the order of the files");
  if (progress.batch != data_.batch())
    fail(kWrongInput, "--resume %s: its steps took %ld samples each, and this program's take %ld: it would repeat some",
         options_.resume.c_str(), long(progress.batch), long(data_.batch()));
  const int64_t seed = rank_.executable.training->random_seed;
  if (rank_.rank == 0 && progress.random_seed.value_or(seed) != seed)
    fprintf(stderr,
            "%s: warning: --resume %s: its model drew with the seed %ld, and this program's draws with %ld: it goes on "
            "otherwise than that run would have\n",
            rank_.executable.name, options_.resume.c_str(), long(*progress.random_seed), long(seed));
  first_ = done_ = progress.step, begins_with_evaluation_ = progress.evaluation_is_due;
}

/// A number that the step has left, on rank 0.
double Trainer::output(const Port* port) {
  double value = 0;
  gather_tensor(rank_, *port, &Program::outputs,
                [&](const WholeTensor& tensor) { value = number_in(*port, tensor.elements); });
  return value;
}

/// The inputs of an iteration: a batch, and inputs that are the same in all iterations.
void Trainer::feed(const std::vector<WholeTensor>& batch, int64_t number) {
  inputs_.load(int(std::min<int64_t>(number, INT32_MAX)));
  for (const WholeTensor& tensor : batch) inputs_.give(tensor);
  const char flag = rank_.evaluates ? 1 : 0;
  if (const char* name = rank_.executable.training->evaluates) inputs_.give({name, {}, &flag});
  inputs_.upload(states_);
  if (options_.check_nan) rank_.odd_input = odd_input(rank_);
  rank_.meet_with_files();
}

/// Before it gathers a figure, rank 0 decides whether the current step is the last. After the barriers of that
/// gathering all ranks know, and the decision does not change before the next iteration is done.
void Trainer::decide_end() {
  if (rank_.rank == 0 && rank_.world.end_asked().load() != 0) rank_.world.end_agreed().store(1);
}

/// Means over the samples of the evaluation's data; nullopt if it was interrupted. Changes no state.
std::optional<StepFigures> Trainer::means_of_evaluation(int64_t step) {
  const int64_t begin = now_ns();
  StepFigures means;
  means.step = step, means.others.resize(others_.size());
  rank_.evaluates = true;
  rank_.invocation = uint32_t(step);  // the model draws the same numbers after a resumption
  int64_t number = 0;
  for (const Stretch& stretch : evaluation_->stretches()) {
    if (is_ending()) break;
    feed(evaluation_->batch_of(stretch), number++);
    rank_.iterate();
    decide_end();
    const double share = double(stretch.count) / double(evaluation_->samples());
    means.loss += output(loss_) * share;
    for (size_t f = 0; f < others_.size(); ++f) means.others[f] += output(others_[f]) * share;
  }
  rank_.evaluates = false;
  means.ms = double(now_ns() - begin) / 1e6;
  return is_ending() ? std::nullopt : std::optional(means);
}

StepFigures Trainer::step(int64_t number) {
  const int64_t begin = now_ns();
  rank_.invocation = uint32_t(number);
  feed(data_.batch_of(number), number);
  rank_.iterate();
  if (options_.check_nan) check_results(rank_);
  fetch_lengths(rank_);
  states_.advance();
  decide_end();
  StepFigures figures;
  figures.step = number + 1;
  figures.loss = output(loss_), figures.rate = output(rate_);
  if (norm_ != nullptr) figures.norm = output(norm_);
  for (const Port* port : others_) figures.others.push_back(output(port));
  for (const Port* port : updates_) figures.updates.push_back(output(port));
  figures.ms = double(now_ns() - begin) / 1e6;
  return figures;
}

void Trainer::print_progress(const StepFigures& s, double per_second) const {
  const bool is_terminal = isatty(STDERR_FILENO) == 1;
  const int64_t between = std::max<int64_t>(1, (last_ - first_ + 19) / 20);
  const bool is_last = s.step == last_;
  if (!is_terminal && !is_last && s.step != first_ + 1 && s.step % between != 0) return;
  const std::string norm = s.norm ? text("  grad norm %.3g", *s.norm) : "";
  const std::string speed = data_.tokens() > 0 ? text("%.0f tokens/s", per_second * double(data_.tokens()))
                                               : text("%.0f samples/s", per_second * double(data_.batch()));
  const std::string left = is_last ? "" : ", " + duration_text(double(last_ - s.step) / per_second) + " left";
  fprintf(stderr, "%s%s: step %ld of %ld  loss %.5f  rate %.3g%s  %s%s%s", is_terminal ? "\r\033[K" : "",
          rank_.executable.name, long(s.step), long(last_), s.loss, s.rate, norm.c_str(), speed.c_str(), left.c_str(),
          is_terminal && !is_last ? "" : "\n");
}

/// Samples that do not fill a batch, at the end of an epoch.
void Trainer::print_what_is_left_out() const {
  const int64_t left = data_.samples() % data_.batch();
  if (left == 0 || last_ < data_.steps_per_epoch()) return;
  fprintf(stderr, "%s: %ld of %ld samples fill no batch of %ld, and each epoch leaves out as many: %s\n",
          rank_.executable.name, long(left), long(data_.samples()), long(data_.batch()),
          options_.shuffles ? "others each time" : "always the last, for want of --shuffle");
}

/// Prints and logs the progress on rank 0.
void Trainer::report(const StepFigures& figures, Log& log) {
  ms_.push_back(figures.ms);
  last_loss_ = figures.loss;
  const size_t recent = std::min<size_t>(ms_.size(), 20);
  double sum = 0;
  for (size_t i = ms_.size() - recent; i < ms_.size(); ++i) sum += ms_[i];
  const double per_second = double(recent) * 1e3 / sum;
  log.write(figures, per_second * double(data_.batch()), per_second * double(data_.tokens()));
  if (!std::isfinite(figures.loss) && !has_warned_) {
    has_warned_ = true;
    fprintf(stderr, "%s: warning: the loss of step %ld is %f; --check-nan says what makes it so\n",
            rank_.executable.name, long(figures.step), figures.loss);
  }
  print_progress(figures, per_second);
}

/// "net: step 40 evaluation of 360 samples: loss 0.08312 accuracy 0.975". False if it was interrupted.
bool Trainer::evaluate(int64_t step, std::optional<Log>& log) {
  const std::optional<StepFigures> figures = means_of_evaluation(step);
  if (!figures) return false;
  if (!log) return true;
  evaluated_ = figures;
  const int64_t samples = evaluation_->samples();
  log->write_evaluation(*figures, samples);
  std::string others;
  for (size_t f = 0; f < others_.size(); ++f) others += text("  %s %.5g", others_[f]->name, figures->others[f]);
  if (!std::isfinite(figures->loss)) others += "  (a batch without a label that counts has no mean: null in the log)";
  fprintf(stderr, "%s: step %ld  evaluation of %ld samples: loss %.5f%s\n", rank_.executable.name, long(step),
          long(samples), figures->loss, others.c_str());
  return true;
}

void Trainer::save(int64_t step, bool evaluation_is_due) {
  if (options_.checkpoint.empty()) return;
  write_checkpoint(rank_, options_,
                   {.step = step,
                    .shuffles = options_.shuffles,
                    .seed = options_.shuffle_seed,
                    .batch = data_.batch(),
                    .random_seed = rank_.executable.training->random_seed,
                    .evaluation_is_due = evaluation_is_due});
}

/// Runs steps up to the last, or up to the one in which it was asked to end. An evaluation does not delay the end: the
/// run that resumes from the checkpoint begins with it.
void Trainer::take_steps(std::optional<Log>& log) {
  leaves_evaluation_ = begins_with_evaluation_ && !evaluate(done_, log);
  if (leaves_evaluation_) save(done_, true);
  while (done_ < last_ && !is_ending()) {
    const StepFigures figures = step(done_);
    if (log) report(figures, *log);
    ++done_;
    leaves_evaluation_ = is_evaluated(done_) && is_ending();
    if (is_due(done_) || is_ending()) save(done_, leaves_evaluation_);
    if (!is_evaluated(done_) || leaves_evaluation_ || evaluate(done_, log)) continue;
    leaves_evaluation_ = true;
    save(done_, true);
  }
}

int Trainer::end_early() const {
  if (rank_.rank == 0)
    fprintf(stderr, "%s: ended by SIGTERM after step %ld of %ld%s\n", rank_.executable.name, long(done_), long(last_),
            options_.checkpoint.empty()
                ? ", without a --checkpoint"
                : text(": --resume %s goes on from there", options_.checkpoint.c_str()).c_str());
  return kTerminated;
}

void Trainer::print_summary() const {
  if (ms_.empty()) return print_text(text("%s: all %ld steps are done\n", rank_.executable.name, long(last_)));
  std::vector<double> sorted = ms_;
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[sorted.size() / 2];
  if (options_.json)
    print_text(text("{\"steps\": %ld, \"loss\": %s, \"step_ms\": %.4f, \"samples_per_s\": %.6g", long(last_),
                    number_json(last_loss_).c_str(), median, double(data_.batch()) * 1e3 / median) +
               (evaluated_ ? figures_json(*evaluated_, rank_.executable.training->figures, "eval_") : "") + "}\n");
  else
    print_text(text("%s: %ld steps, loss %.6g, %.3f ms a step in the median\n", rank_.executable.name, long(ms_.size()),
                    last_loss_, median));
}

int Trainer::run() {
  data_.add_to(rank_.file_sums);
  if (evaluation_) evaluation_->add_to(rank_.file_sums);
  rank_.meet_with_files();
  states_.begin();
  if (folder_)
    tidy_checkpoints(options_.checkpoint, options_.keep, checkpoint_folder(options_.checkpoint), options_.load_state);
  std::optional<Log> log;
  if (rank_.rank == 0) log.emplace(options_.log, LogBegin{done_, begins_with_evaluation_}, *rank_.executable.training);
  if (log) print_what_is_left_out();
  take_steps(log);
  if (is_ending() && (done_ < last_ || leaves_evaluation_)) return end_early();
  if (log) print_summary();
  return kOk;
}

}  // namespace

void check_training(const Executable& executable, const Options& options) {
  if ((options.every > 0 || options.keep > 0) && options.checkpoint.empty())
    fail(kUsage, "--every and --keep are about --checkpoint DIR, which is missing");
  if (options.check_nan && !options.trains())
    fail(kUsage, "--check-nan is about the steps of a training: --data NAME=FILE.npy is missing");
  if (!options.trains()) return;
  if (options.serves) fail(kUsage, "--serve: a program either answers requests or trains");
  if (executable.training == nullptr)
    fail(kUsage, "--data, --steps and the like: this program does not train; its schedule has no section 'train'");
  if (options.eval_every > 0 && options.eval_data.empty())
    fail(kUsage, "--eval-every is about --eval-data NAME=FILE.npy, which is missing");
  if (options.data.empty()) fail(kUsage, "what is trained on is missing: --data NAME=FILE.npy");
  if (options.is_timed) fail(kUsage, "--iterations and --warmup: a training has --steps");
  if (!options.output_dir.empty())
    fail(kUsage, "--output-dir: the figures of a training's steps are in its --log, its states in --checkpoint");
  if (options.steps > 0 && options.epochs > 0) fail(kUsage, "--steps and --epochs say the same: give one of them");
  if (!options.resume.empty() && !options.load_state.empty())
    fail(kUsage, "--resume and --load-state both say how states begin: give one of them");
  TrainingData data(executable, options, samples_of_training(options));
  if (!options.eval_data.empty()) TrainingData(executable, options, samples_of_evaluation(options));
  if (options.resume.empty()) return;
  read_checkpoint(executable, checkpoint_folder(options.resume));
  check_sums(checkpoint_folder(options.resume));
}

int run_training(RankBase& rank, const Options& options) {
  Options resumed = options;
  if (!options.resume.empty()) resumed.load_state = checkpoint_folder(options.resume);
  return Trainer(rank, resumed).run();
}

}  // namespace weft
