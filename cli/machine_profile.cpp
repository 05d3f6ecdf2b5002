// `weft profile --machine`: what this machine can do, as a machine file. Small programs are built and run with a trace:
// one that computes and exchanges on all ranks, and one for each smaller power of two that only exchanges.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <thread>

#include "cli/build.h"
#include "cli/commands.h"
#include "cli/compile.h"
#include "cli/machine_probe.h"
#include "cli/process.h"
#include "cli/timed_run.h"
#include "cli/timeline_text.h"
#include "cli/tune/machine_load.h"
#include "cli/tune/trial_records.h"
#include "frontend/machine_writer.h"

namespace weftc {

namespace {

constexpr const char *kProbeWarmUp = "3", *kProbeIterations = "20";
constexpr double kBusyMachine = 0.2;  // used by others
// Ceilings are a machine's best rates; an exchange waits for other work of the machine, but not for a core.
constexpr double kAtBest = 0, kOften = 0.25;

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

/// Bytes of the machine's memory; 0 if the system does not tell.
int64_t memory_of_machine() {
  const std::string text = read_file("/proc/meminfo").value_or("");
  constexpr std::string_view kKey = "MemTotal:";
  const size_t at = text.find(kKey);
  return at == std::string::npos ? 0 : std::strtoll(text.c_str() + at + kKey.size(), nullptr, 10) * 1024;
}

/// All numbers of ranks that are measured: powers of two, and those of the machine.
std::vector<int> rank_counts(int ranks) {
  std::vector<int> counts;
  for (int count = 2; count < ranks; count *= 2) counts.push_back(count);
  counts.push_back(ranks);
  return counts;
}

class MachineProfiler {
 public:
  explicit MachineProfiler(const Options& options)
      : options_(options),
        cores_(std::max(1, static_cast<int>(std::thread::hardware_concurrency()))),
        ranks_(options.machine_ranks > 0 ? options.machine_ranks : cores_) {}

  int run(Diags& diags) {
    if (!check_output(options_, diags)) return finish(diags);
    NetworkLevel level{
        options_.run_args.empty() ? "shared memory" : "shared memory, slowed", ranks_, {}, 0, 0, false, {}};
    for (const int count : rank_counts(ranks_)) {
      const std::optional<Trace> trace = measure(count, diags);
      if (!trace) {
        const int reported = finish(diags);
        return code_ != 0 ? code_ : reported;
      }
      if (count == ranks_) machine_.ceilings = probed_ceilings(seconds_of_steps(*trace, kAtBest), count, cores_);
      if (count > 1)
        for (TimeCurve& curve : probed_curves(seconds_of_steps(*trace, kOften), count))
          level.curves.push_back(std::move(curve));
    }
    describe(std::move(level));
    return write(diags);
  }

 private:
  /// The trace of a program for this number of ranks. Returns nullopt after reporting, with an exit code if diagnostics
  /// have none.
  std::optional<Trace> measure(int count, Diags& diags) {
    progress(options_, format("measuring {} rank{}", count, count == 1 ? "" : "s"));
    Options build = options_;
    build.model = work_.path() + "/probe.onnxtxt";
    build.schedules = {work_.path() + "/probe.yaml"};
    build.output = work_.path() + "/probe";
    build.quiet = true;
    for (const auto& [path, text] : {std::pair{build.model, probe_model(count, count == ranks_)},
                                     std::pair{build.schedules.front(), probe_schedule(count)}})
      if (const std::string why = write_file(path, text); !why.empty())
        diags.error("probe-unwritable", Loc::in_file(path), "the program to measure with cannot be written: {}", why);
    const std::unique_ptr<Compilation> c = diags.ok() ? compile_graph(build, diags) : nullptr;
    if (!c || !compile_plan(*c, build, diags)) return {};
    if ((code_ = compile_program(*c, build, diags)) != 0) return {};
    return run_probe(build.output, diags);
  }

  std::optional<Trace> run_probe(const std::string& program, Diags& diags) {
    const std::string file = work_.path() + "/trace.json";
    std::vector<std::string> command{program,          "--random-inputs", "1",       "--threads", "1",
                                     "--warmup",       kProbeWarmUp,      "--trace", file,        "--iterations",
                                     kProbeIterations, "--json"};
    command.insert(command.end(), options_.run_args.begin(), options_.run_args.end());
    const MachineLoad load;
    const Finished finished = run_program(command, kRunSeconds);
    others_ = std::max(others_, load.of_others());
    if (finished.exit_code != 0) {
      diags.error("probe-run", {}, "the program to measure with does not run: {}", failure_text(finished));
      code_ = finished.exit_code == kEnvironment || finished.exit_code == kTimedOut ? finished.exit_code : 0;
      return {};
    }
    return read_traces({file}, diags);
  }

  void describe(NetworkLevel level) {
    machine_.ceilings.machine = format("{} core{} of {}", ranks_, ranks_ == 1 ? "" : "s", printable(processor_));
    std::ranges::replace(machine_.ceilings.machine, '"', '\'');
    machine_.archs = options_.target.archs;
    machine_.ranks = ranks_;
    machine_.memory = memory_of_machine() / ranks_ >> 20 << 20;  // whole MiB
    if (ranks_ == 1) return;
    const std::vector<TimeCurve::Point>& points = curve_of_all(level).points;
    const TimeCurve::Point &last = points.back(), &before = points[points.size() - 2];
    const bool grows = last.seconds > before.seconds;
    level.latency = points.front().seconds;
    level.bandwidth = grows ? (last.bytes - before.bytes) / (last.seconds - before.seconds) : last.bytes / last.seconds;
    machine_.levels = {std::move(level)};
  }

  /// That of an all-reduce of all ranks.
  const TimeCurve& curve_of_all(const NetworkLevel& level) const {
    return *std::ranges::find_if(
        level.curves, [&](const TimeCurve& curve) { return curve.kind == OpKind::AllReduce && curve.ranks == ranks_; });
  }

  std::string source() const {
    std::string text = format("Measured {} by weft profile --machine on {}, {} rank{} of one thread", today(),
                              printable(processor_), ranks_, ranks_ == 1 ? "" : "s");
    if (!options_.run_args.empty()) text += ", run with " + printable(join(options_.run_args, " "));
    if (others_ > kBusyMachine)
      text += format(", while others used {} % of it: measure again when it is quiet", static_cast<int>(100 * others_));
    return text + ".";
  }

  int write(Diags& diags) const {
    const Ceilings& c = machine_.ceilings;
    std::printf("%s\nproducts: f32 %sOP/s, f64 %sOP/s, f16 %sOP/s; memory %sB/s; %s a step\n", source().c_str(),
                metric_text(c.f32).c_str(), metric_text(c.f64).c_str(), metric_text(c.f16).c_str(),
                metric_text(c.memory).c_str(), time_text(c.step).c_str());
    if (!machine_.levels.empty())
      std::printf("all-reduce: %s and %sB/s\n", time_text(machine_.levels[0].latency).c_str(),
                  metric_text(machine_.levels[0].bandwidth).c_str());
    if (ranks_ > cores_) std::printf("%d ranks share %d cores: times vary\n", ranks_, cores_);
    if (const std::string why = write_file(options_.output, machine_text_of(machine_, source())); !why.empty())
      diags.error("machine-unwritable", Loc::in_file(options_.output), "the machine cannot be written: {}", why);
    return finish(diags);
  }

  const Options& options_;
  const int cores_, ranks_;
  WorkFolder work_;
  Machine machine_;
  const std::string processor_ = processor_name();
  double others_ = 0;
  int code_ = 0;
};

/// GPUs are measured by NCCL's own tests, whose figures a machine file takes.
int refuse_device(const Options& options, Diags& diags) {
  const bool has_device = access(dialect_of(options.target).toolkit->device_file, F_OK) == 0;
  if (has_device)
    diags.error(
        "profile-machine-unsupported", {},
        "profile --machine measures hosts: start from a file of samples/machines and the figures of nccl-tests");
  else
    std::fprintf(stderr, "weft: error: profile --machine: there is no GPU here to be measured\n");
  const int code = finish(diags);
  return has_device ? code : kEnvironment;
}

}  // namespace

int run_machine_profile(const Options& options) {
  Diags diags;
  return options.target.has_grid() ? refuse_device(options, diags) : MachineProfiler(options).run(diags);
}

}  // namespace weftc
