// `weft profile`: measures the blocks of a pipeline on this machine. The program is built and run as usual, with a
// trace.
//
// Ranks without a core of their own are preempted within steps, whose time is then mostly that of others. Steps are
// short compared with a preemption, so many of their runs are uninterrupted. In that case the lower quartile of each
// step is taken, and else the median. The table says so, and why.
#include <cstdio>
#include <map>
#include <thread>

#include "cli/block_times.h"
#include "cli/build.h"
#include "cli/commands.h"
#include "cli/compile.h"
#include "cli/json_items.h"
#include "cli/measured_times.h"
#include "cli/process.h"
#include "cli/table.h"
#include "cli/timed_run.h"
#include "cli/timeline_text.h"
#include "cli/tune/machine_load.h"
#include "cli/tune/trial_records.h"
#include "ir/base/check.h"

namespace weftc {

namespace {

constexpr const char* kWarmUp = "2";
constexpr double kMuchUse = 0.2;  // of the machine, by others

class Profiler {
 public:
  explicit Profiler(const Options& options) : options_(options) {}

  int run(Diags& diags) {
    if (!options_.output.empty() && !check_output(options_, diags)) return finish(diags);
    compiled_ = compile_graph(options_, diags);
    if (!compiled_ || !compile_plan(*compiled_, options_, diags)) return finish(diags);
    profile_ = blank_profile(*compiled_);
    predict();
    Options build = options_;
    build.output = work_.path() + "/program";
    if (const int code = compile_program(*compiled_, build, diags); code != 0) {
      const int reported = finish(diags);
      return reported != 0 ? reported : code;
    }
    if (const int code = measure(build.output, diags); code != 0) {
      finish(diags);
      return code;
    }
    std::printf("%s", text().c_str());
    return write(diags);
  }

 private:
  /// Memory is as planned; the cost model's times are shown beside the measured ones.
  void predict() {
    const Fingerprints prints = fingerprints_of(compiled_->plan, compiled_->module);
    profile_.model = prints.model, profile_.stages = prints.stages;
    if (!compiled_->module.pipeline) return;
    const CostModel model(compiled_->plan, compiled_->module, compiled_->machine);
    const BlockCosts costs = block_costs(compiled_->plan, *compiled_->module.pipeline, model);
    std::vector<std::string> names;
    for (size_t b = 0; b < costs.blocks.size(); ++b) {
      const PipelineBlock& block = costs.pipeline.problem.blocks[b];
      names.push_back(name_of_block(compiled_->plan, compiled_->module, compiled_->schedule, costs.blocks[b]));
      predicted_[names[b]] = block.time;
      for (BlockTime& each : profile_.blocks)
        if (each.name == names[b]) each.memory = block.memory;
    }
    for (const PipelineTransfer& transfer : costs.pipeline.transfers)
      predicted_[arrow(names[as_index(transfer.from)], names[as_index(transfer.to)])] = transfer.time;
  }

  static std::string arrow(const std::string& from, const std::string& to) { return from + " -> " + to; }

  /// The exit code, after reporting.
  int measure(const std::string& program, Diags& diags) {
    const std::string file = work_.path() + "/trace.json";
    std::vector<std::string> command{program,
                                     "--random-inputs",
                                     "1",
                                     "--json",
                                     "--no-generate",
                                     "--warmup",
                                     kWarmUp,
                                     "--iterations",
                                     std::to_string(options_.iterations),
                                     "--trace",
                                     file};
    command.insert(command.end(), options_.run_args.begin(), options_.run_args.end());
    progress(options_, format("measuring {} iterations", options_.iterations));
    const MachineLoad load;
    const Finished finished = run_program(command, kRunSeconds);
    others_ = load.of_others();
    if (finished.exit_code != 0) {
      diags.error("profile-run", Loc::in_file(options_.model), "the program does not run: {}", failure_text(finished));
      return finished.exit_code == kEnvironment || finished.exit_code == kTimedOut ? finished.exit_code : 1;
    }
    const JsonItem report = read_json_object(finished.out);
    profile_.machine = processor_name();
    profile_.ranks = compiled_->plan.world;
    profile_.threads = static_cast<int>(report.number("threads", 1));
    profile_.cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    profile_.peak_memory = static_cast<int64_t>(report.number("peak_memory_bytes", 0));
    const std::optional<Trace> trace = read_traces({file}, diags);
    if (!trace) return 1;
    const std::string why = add_times(profile_, *compiled_, *trace, is_disturbed() ? 0.25 : 0.5);
    WEFT_CHECK(why.empty(), "the trace is not of this plan: " + why);
    return 0;
  }

  /// On GPUs, threads only issue steps.
  bool shares_cores() const { return profile_.shares_cores() && !compiled_->target.has_grid(); }

  bool is_disturbed() const { return shares_cores() || others_ > kMuchUse; }

  std::string text() const {
    TableRows rows = {{"block", "ranks", "runs", "measured", "predicted", "hands on"}};
    for (const BlockTime& block : profile_.blocks) {
      std::vector<std::string> ranks;
      for (const int rank : block.ranks) ranks.push_back(std::to_string(rank));
      rows.push_back({printable(block.name), few_of(std::move(ranks), 4), std::to_string(block.runs),
                      nanoseconds(block.time), predicted(block.name), memory(block.memory)});
    }
    for (const TransferTime& transfer : profile_.transfers) {
      const std::string name = arrow(transfer.from, transfer.to);
      rows.push_back(
          {printable(name), "", "", nanoseconds(transfer.time), predicted(name), bytes_text(transfer.bytes)});
    }
    std::string text = format("{}: {} rank{} of {} thread{} on {} core{}, {}; {} iterations of {} micro-batch{}\n",
                              compiled_->plan.name, profile_.ranks, profile_.ranks == 1 ? "" : "s", profile_.threads,
                              profile_.threads == 1 ? "" : "s", profile_.cores, profile_.cores == 1 ? "" : "s",
                              printable(profile_.machine), options_.iterations, compiled_->plan.micro_batches,
                              compiled_->plan.micro_batches == 1 ? "" : "es") +
                       table_text(rows);
    text += format("peak memory of a rank: {}\n", bytes_text(profile_.peak_memory));
    if (is_disturbed())
      text += format("{}: of each step the lower quartile of its runs counts instead of the median\n",
                     shares_cores() ? std::string("ranks share cores")
                                    : format("others used {} % of the machine", static_cast<int>(100 * others_)));
    return text;
  }

  static std::string nanoseconds(int64_t time) { return time_text(static_cast<double>(time) * 1e-9); }
  std::string predicted(const std::string& name) const {
    const auto found = predicted_.find(name);
    return found == predicted_.end() ? "" : nanoseconds(found->second);
  }
  /// Memory that a block frees is negative.
  static std::string memory(int64_t bytes) {
    return bytes == 0 ? "" : bytes < 0 ? "-" + bytes_text(-bytes) : bytes_text(bytes);
  }

  int write(Diags& diags) const {
    if (!options_.output.empty())
      if (const std::string why = write_file(options_.output, profile_json(profile_)); !why.empty())
        diags.error("profile-unwritable", Loc::in_file(options_.output), "the profile cannot be written: {}", why);
    return finish(diags);
  }

  const Options& options_;
  WorkFolder work_;
  std::unique_ptr<Compilation> compiled_;
  Profile profile_;
  double others_ = 0;                         // the part of the machine that they used while the program ran
  std::map<std::string, int64_t> predicted_;  // nanoseconds, by name of a block or transfer
};

}  // namespace

int run_profile(const Options& options) {
  if (options.measures_machine) return run_machine_profile(options);
  Diags diags;
  return Profiler(options).run(diags);
}

}  // namespace weftc
