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
#include "checks.h"
#include "inputs.h"
#include "lengths.h"
#include "manifest.h"
#include "report.h"
#include "tensors.h"
#include "training_data.h"
#include "wait.h"

namespace weft {

namespace {

/// What rank 0 knows of a step.
struct StepFigures {
  int64_t step = 0;  // from 1
  double loss = 0, rate = 0, ms = 0;
  std::optional<double> norm;
};

double number_in(const Port& port, const char* bytes) {
  if (port.dtype == DType::F64) return *reinterpret_cast<const double*>(bytes);
  if (port.dtype == DType::F32) return double(*reinterpret_cast<const float*>(bytes));
  fail(kBug, "'%s' is no float", port.name);
}

/// A number of JSON, which has no infinities.
std::string number_json(double number) { return std::isfinite(number) ? text("%.9g", number) : "null"; }

/// Lines of JSON behind those of the steps before the first.
class Log {
 public:
  Log(const std::string& file, int64_t done) {
    if (file.empty()) return;
    const std::string kept = done == 0 ? "" : lines_up_to(file, done);
    file_.reset(fopen(file.c_str(), "we"));
    if (!file_ || fwrite(kept.data(), 1, kept.size(), file_.get()) != kept.size())
      fail(kEnvironment, "cannot write %s: %s", file.c_str(), strerror(errno));
  }

  void write(const StepFigures& s, double samples, double tokens) {
    if (!file_) return;
    const std::string norm = s.norm ? ", \"grad_norm\": " + number_json(*s.norm) : "";
    const std::string speed = tokens > 0 ? text(", \"tokens_per_s\": %.6g", tokens) : "";
    const std::string line = text("{\"step\": %ld, \"loss\": %s, \"rate\": %s", long(s.step),
                                  number_json(s.loss).c_str(), number_json(s.rate).c_str()) +
                             norm + text(", \"ms\": %.4f, \"samples_per_s\": %.6g", s.ms, samples) + speed + "}\n";
    if (fwrite(line.data(), 1, line.size(), file_.get()) != line.size() || fflush(file_.get()) != 0)
      fail(kEnvironment, "cannot write the log: %s", strerror(errno));
  }

 private:
  /// What the log says of the steps up to `done`: a run that broke off may have gone on behind its last checkpoint.
  static std::string lines_up_to(const std::string& file, int64_t done) {
    const std::unique_ptr<FILE, int (*)(FILE*)> in(fopen(file.c_str(), "re"), fclose);
    std::string kept;
    char line[1024];
    long step = 0;
    while (in && fgets(line, sizeof line, in.get()) != nullptr)
      if (sscanf(line, "{\"step\": %ld", &step) == 1 && step <= done) kept += line;
    return kept;
  }

  std::unique_ptr<FILE, int (*)(FILE*)> file_{nullptr, fclose};
};

std::string duration_text(double seconds) {
  if (seconds < 60) return text("%.0f s", seconds);
  if (seconds < 3600) return text("%d min %02d s", int(seconds) / 60, int(seconds) % 60);
  return text("%d h %02d min", int(seconds) / 3600, int(seconds) / 60 % 60);
}

/// The training as one rank runs it.
class Trainer {
 public:
  Trainer(RankBase& rank, const Options& options)
      : rank_(rank),
        options_(options),
        data_(rank.executable, options),
        inputs_(rank, options),
        states_(rank, options) {
    for (const Port* port : distinct_ports(rank.executable, &Program::outputs)) {
      const std::string_view name = port->name;
      const Training& training = *rank.executable.training;
      if (name == training.loss) loss_ = port;
      if (name == training.rate) rate_ = port;
      if (training.norm != nullptr && name == training.norm) norm_ = port;
    }
    if (!options.resume.empty()) resume();
    last_ = options.steps > 0 ? options.steps : int64_t{std::max(1, options.epochs)} * data_.steps_per_epoch();
  }

  void run();

 private:
  void resume();
  StepFigures step(int64_t number);
  double output(const Port* port);
  void report(const StepFigures& figures, Log& log);
  void print_progress(const StepFigures& figures, double per_second) const;
  bool is_due(int64_t step) const {
    return !options_.checkpoint.empty() && (step == last_ || (options_.every > 0 && step % options_.every == 0));
  }

  RankBase& rank_;
  const Options& options_;
  const Port *loss_ = nullptr, *rate_ = nullptr, *norm_ = nullptr;  // outputs
  TrainingData data_;
  Inputs inputs_;
  States states_;
  int64_t done_ = 0, last_ = 0;
  std::vector<double> ms_;
  double last_loss_ = 0;
};

void Trainer::resume() {
  const Progress progress = read_checkpoint(rank_.executable, checkpoint_folder(options_.resume));
  if (progress.shuffles != options_.shuffles || progress.seed != options_.shuffle_seed)
    fail(kWrongInput, "--resume %s: its samples come %s: give the same --shuffle", options_.resume.c_str(),
         progress.shuffles
             ? text("in the order of --shuffle %llu", static_cast<unsigned long long>(progress.seed)).c_str()
             : "in the order of the files");
  done_ = progress.step;
}

/// A number that the step has left, on rank 0.
double Trainer::output(const Port* port) {
  double value = 0;
  gather_tensor(rank_, *port, &Program::outputs,
                [&](const WholeTensor& tensor) { value = number_in(*port, tensor.elements); });
  return value;
}

StepFigures Trainer::step(int64_t number) {
  const int64_t begin = now_ns();
  rank_.invocation = uint32_t(number);
  inputs_.load(int(std::min<int64_t>(number, INT32_MAX)));
  for (const WholeTensor& tensor : data_.batch_of(number)) inputs_.give(tensor);
  inputs_.upload(states_);
  rank_.barrier();
  rank_.iterate();
  fetch_lengths(rank_);
  states_.advance();
  StepFigures figures;
  figures.step = number + 1;
  figures.loss = output(loss_), figures.rate = output(rate_);
  if (norm_ != nullptr) figures.norm = output(norm_);
  figures.ms = double(now_ns() - begin) / 1e6;
  return figures;
}

void Trainer::print_progress(const StepFigures& s, double per_second) const {
  const bool is_terminal = isatty(STDERR_FILENO) == 1;
  const int64_t between = std::max<int64_t>(1, (last_ - done_ + 19) / 20);
  const bool is_last = s.step == last_;
  if (!is_terminal && !is_last && s.step != done_ + 1 && s.step % between != 0) return;
  const std::string norm = s.norm ? text("  grad norm %.3g", *s.norm) : "";
  const std::string speed = data_.tokens() > 0 ? text("%.0f tokens/s", per_second * double(data_.tokens()))
                                               : text("%.0f samples/s", per_second * double(data_.batch()));
  const std::string left = is_last ? "" : ", " + duration_text(double(last_ - s.step) / per_second) + " left";
  fprintf(stderr, "%s%s: step %ld of %ld  loss %.5f  rate %.3g%s  %s%s%s", is_terminal ? "\r\033[K" : "",
          rank_.executable.name, long(s.step), long(last_), s.loss, s.rate, norm.c_str(), speed.c_str(), left.c_str(),
          is_terminal && !is_last ? "" : "\n");
}

/// Rank 0 says how it goes; a loss that is no number ends all.
void Trainer::report(const StepFigures& figures, Log& log) {
  ms_.push_back(figures.ms);
  last_loss_ = figures.loss;
  const size_t recent = std::min<size_t>(ms_.size(), 20);
  double sum = 0;
  for (size_t i = ms_.size() - recent; i < ms_.size(); ++i) sum += ms_[i];
  const double per_second = double(recent) * 1e3 / sum;
  log.write(figures, per_second * double(data_.batch()), per_second * double(data_.tokens()));
  if (!std::isfinite(figures.loss)) fail(kWrongInput, "the loss of step %ld is %f", long(figures.step), figures.loss);
  print_progress(figures, per_second);
}

void Trainer::run() {
  states_.begin();
  std::optional<Log> log;
  if (rank_.rank == 0) log.emplace(options_.log, done_);
  for (int64_t number = done_; number < last_; ++number) {
    const StepFigures figures = step(number);
    if (log) report(figures, *log);
    if (is_due(number + 1)) write_checkpoint(rank_, options_, {number + 1, options_.shuffles, options_.shuffle_seed});
  }
  if (!log) return;
  if (ms_.empty()) return print_text(text("%s: all %ld steps are done\n", rank_.executable.name, long(last_)));
  std::vector<double> sorted = ms_;
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[sorted.size() / 2];
  if (options_.json)
    print_text(text("{\"steps\": %ld, \"loss\": %s, \"step_ms\": %.4f, \"samples_per_s\": %.6g}\n", long(last_),
                    number_json(last_loss_).c_str(), median, double(data_.batch()) * 1e3 / median));
  else
    print_text(text("%s: %ld steps, loss %.6g, %.3f ms a step in the median\n", rank_.executable.name, long(ms_.size()),
                    last_loss_, median));
}

}  // namespace

void check_training(const Executable& executable, const Options& options) {
  if ((options.every > 0 || options.keep > 0) && options.checkpoint.empty())
    fail(kUsage, "--every and --keep are about --checkpoint DIR, which is missing");
  if (!options.trains()) return;
  if (options.serves) fail(kUsage, "--serve: a program either answers requests or trains");
  if (executable.training == nullptr)
    fail(kUsage, "--data, --steps and the like: this program does not train; its schedule has no section 'train'");
  if (options.data.empty()) fail(kUsage, "what is trained on is missing: --data NAME=FILE.npy");
  if (options.is_timed) fail(kUsage, "--iterations and --warmup: a training has --steps");
  if (!options.output_dir.empty())
    fail(kUsage, "--output-dir: the figures of a training's steps are in its --log, its states in --checkpoint");
  if (options.steps > 0 && options.epochs > 0) fail(kUsage, "--steps and --epochs say the same: give one of them");
  if (!options.resume.empty() && !options.load_state.empty())
    fail(kUsage, "--resume and --load-state both say how states begin: give one of them");
  TrainingData data(executable, options);
  if (!options.resume.empty()) read_checkpoint(executable, checkpoint_folder(options.resume));
}

void run_training(RankBase& rank, const Options& options) {
  Options resumed = options;
  if (!options.resume.empty()) resumed.load_state = checkpoint_folder(options.resume);
  Trainer(rank, resumed).run();
}

}  // namespace weft
