// weft::main: from the command line to the exit code.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "checks.h"
#include "end_request.h"
#include "generations.h"
#include "image_file.h"
#include "inputs.h"
#include "launch.h"
#include "level.h"
#include "mapping.h"
#include "meeting.h"
#include "open_relay.h"
#include "rank_maker.h"
#include "report.h"
#include "serve.h"
#include "tensors.h"
#include "training.h"
#include "variants.h"
#include "wait.h"

namespace weft {

namespace {

/// The peak memory of the process in bytes; 0 if the system does not tell. getrusage would include the peak of the
/// process that started this one.
int64_t peak_memory() {
  const std::unique_ptr<FILE, int (*)(FILE*)> status(fopen("/proc/self/status", "re"), fclose);
  char line[256];
  long kibibytes = 0;
  while (status && fgets(line, sizeof line, status.get()) != nullptr)
    if (sscanf(line, "VmHWM: %ld kB", &kibibytes) == 1) return int64_t{kibibytes} * 1024;
  return 0;
}

/// One invocation; returns its milliseconds, from inputs that lie in their buffers to states that the next one reads.
double invoke(RankBase& rank, Inputs& inputs, States& states, int invocation) {
  if (rank.options.poison) rank.poison(states.ranges());
  inputs.load(invocation);
  inputs.upload(states);
  rank.make_ready();
  rank.meet_with_files();
  const int64_t begin = now_ns();
  rank.iterate();
  const int64_t end = now_ns();
  fetch_lengths(rank);
  states.advance();
  return double(end - begin) / 1e6;
}

/// Computation alone and communication alone, in turns with the whole: a machine that slows down slows all three. The
/// states begin anew, since half an invocation leaves them wrong.
void time_parts(RankBase& rank, Inputs& inputs, States& states, RunReport& report) {
  const int invocation = int(rank.invocation);
  for (const auto& [portion, times] : {std::pair{Portion::Computation, &report.computation_ms},
                                       std::pair{Portion::Communication, &report.communication_ms}}) {
    rank.portion = portion;
    times->push_back(invoke(rank, inputs, states, invocation));
    states.reset();
  }
  rank.portion = Portion::Whole;
}

/// Invocations one after another, which hand their states on.
void run_invocations(RankBase& rank, const Options& options, RunReport& report) {
  Inputs inputs(rank, options);
  States states(rank, options);
  states.reset();
  for (int i = 0; i < options.warmup; ++i) invoke(rank, inputs, states, 0);
  states.reset();
  rank.clear_trace();
  for (int i = 0; i < options.iterations; ++i) {
    rank.invocation = uint32_t(i);
    if (options.measures_overlap) time_parts(rank, inputs, states, report);
    const int64_t before = rank.received_bytes();
    report.latency_ms.push_back(invoke(rank, inputs, states, i));
    rank.world.rank(rank.rank).received_bytes.store(rank.received_bytes() - before);
  }
}

/// Everything one rank does; the exit code.
int run_rank(const Executable& executable, const Options& options, ImageFile& file, Target& target, World& world,
             int rank_number) {
  world.rank(rank_number).pid.store(getpid());
  const std::unique_ptr<RankBase> made = make_rank(target, executable, options, file, world, rank_number);
  RankBase& rank = *made;
  if (options.serves) return serve_requests(rank, options), kOk;
  RunReport report{.threads = rank.options.threads};
  int code = kOk;
  if (options.trains())
    code = run_training(rank, options);
  else if (executable.generation != nullptr)
    run_generations(rank, options, report);
  else
    run_invocations(rank, options, report);
  rank.check_stalled();
  if (executable.generation == nullptr && !options.trains()) write_outputs(rank, options);
  write_states(rank, options, options.save_state);
  if (!options.trace.empty()) write_trace(rank, options.trace);
  world.rank(rank_number).peak_bytes.store(peak_memory());
  world.rank(rank_number).device_bytes.store(rank.device_memory().total());
  rank.barrier();
  if (rank_number != 0 || options.trains()) return code;
  if (!executable.variants.empty()) report.variant = executable.variants[rank.variant_number].name;
  for (int r = 0; r < executable.world; ++r) {
    report.peak_bytes = std::max(report.peak_bytes, world.rank(r).peak_bytes.load());
    report.device_bytes = std::max(report.device_bytes, world.rank(r).device_bytes.load());
    report.received_bytes = std::max(report.received_bytes, world.rank(r).received_bytes.load());
  }
  print_report(executable, options, report);
  return code;
}

/// One rank with its errors; the exit code.
int guarded_rank(const Executable& executable, const Options& options, ImageFile& file, Target& target, World& world,
                 int rank) {
  try {
    return run_rank(executable, options, file, target, world, rank);
  } catch (const Failure& failure) {
    report_failure(executable.name, world, rank, failure);
  } catch (const std::exception& error) {
    report_failure(executable.name, world, rank, {kEnvironment, error.what()});
  }
  return world.failure();
}

/// One rank as a process of its own.
int run_process(const Executable& executable, const Options& options, ImageFile& file, World& world, int rank) {
  try {
    const std::unique_ptr<Target> target = open_target(executable, 1);
    return guarded_rank(executable, options, file, *target, world, rank);
  } catch (const Failure& failure) {
    report_failure(executable.name, world, rank, failure);
    return world.failure();
  }
}

Endable endable_of(const Options& options) {
  if (options.serves) return {Endable::Kind::Server, options.socket};
  return {options.trains() ? Endable::Kind::Training : Endable::Kind::Nothing};
}

/// All ranks in this process.
int run_threads(const Executable& executable, const Options& options, ImageFile& file, const WorldShape& shape) {
  const std::unique_ptr<Target> target = open_target(executable, shape.ranks);
  const Mapping memory = Mapping::zeroed(World::bytes_of(shape));
  World world(shape, memory.data());
  world.manifest = file.manifest();
  const std::unique_ptr<EndRequests> end_requests = hear_end_requests(endable_of(options), world);
  std::vector<std::jthread> ranks;
  try {
    for (int r = 1; r < shape.ranks; ++r)
      ranks.emplace_back([&, r] { guarded_rank(executable, options, file, *target, world, r); });
  } catch (const std::exception& error) {  // no more threads; the ranks that have begun end
    report_failure(executable.name, world, int(ranks.size()) + 1, {kEnvironment, error.what()});
    return kEnvironment;
  }
  const int code = guarded_rank(executable, options, file, *target, world, 0);
  for (std::jthread& rank : ranks) rank.join();
  return world.has_failed() ? world.failure() : code;
}

/// Programs whose ranks share memory are on one machine.
bool is_apart(const Launched& launched, const Options& options) {
  return kRelayAlways || launched.machines == Machines::Several || !options.root.empty() ||
         (launched.machines == Machines::Unsaid && !kWindowsInWorld);
}

/// A rank of a job on several machines: the memory that ranks share is a copy of its own here.
int run_apart(const Executable& executable, const LevelProgram& program, const Options& options, ImageFile& file,
              const WorldShape& shape, const Launched& launched) {
  if (options.link.is_limited()) fail(kUsage, "--link is for ranks that share memory; these have links of their own");
  const Mapping memory = Mapping::zeroed(World::bytes_of(shape));
  World world(shape, memory.data());
  world.manifest = file.manifest();
  const Job job{executable.name, agreement_of(file.build(), program, shape, options), options.timeout};
  const std::unique_ptr<Relay> relay = open_relay(job, world, launched, options.root);
  world.relay = relay.get();
  const int code = run_process(executable, options, file, world, launched.rank);
  if (code == kOk) relay->close();
  return code;
}

void check_size(const Executable& executable, const std::optional<Launched>& launched) {
  if (!launched || launched->size == executable.world) return;
  const int ranks = executable.world;
  const std::string command = ranks == 1 ? "" : text("%s %d, or ", launched->command, ranks);
  fail(kEnvironment, "the launcher started %d rank%s; the program has %d: start it with %swithout a launcher",
       launched->size, launched->size == 1 ? "" : "s", ranks, command.c_str());
}

int run(const Executable& executable, const LevelChoice& level, const Options& options, char** argv) {
  if (options.help) return print_text(help_text(executable.name)), kOk;
  if (const std::optional<Child> child = find_parent(getenv); child.has_value()) {
    World world = attach_world(world_shape(executable, options), child->fd);
    const auto end_requests = hear_end_requests(endable_of(options), world, EndRequests::Second::IsNothing);
    ImageFile file(options.weights, options.check);
    world.manifest = file.manifest();
    if (world.build().load() != file.build())
      fail(kEnvironment, "rank %d runs another program than the process that started it: a file has changed meanwhile",
           child->rank);
    return run_process(executable, options, file, world, child->rank);
  }
  ImageFile file(options.weights, options.check);
  if (options.info) return print_text(info_json(executable, level, file.manifest())), kOk;
  check_options(executable, options);
  check_training(executable, options);
  const WorldShape shape = world_shape(executable, options);
  if (options.ranks_as_threads || executable.world == 1) {
    if (!options.ranks_as_threads) check_size(executable, find_launcher(getenv));
    return run_threads(executable, options, file, shape);
  }
  const std::optional<Launched> launched = find_launcher(getenv);
  if (!launched.has_value()) {
    if (!options.root.empty())
      fail(kEnvironment,
           "--root is for ranks that a launcher starts: RANK and WORLD_SIZE, or such variables, are not set");
    open_target(executable, 0);  // so that missing things are reported once, and at once
    return start_ranks(executable, file, shape, endable_of(options), argv);
  }
  check_size(executable, launched);
  open_target(executable, 1);  // missing things are reported before the ranks wait for each other
  if (is_apart(*launched, options) && (options.serves || executable.generation != nullptr))
    fail(kUsage, "%s share the memory of one machine",
         options.serves ? "--serve: the ranks of a server" : "the ranks of a program that generates (--no-generate)");
  if (is_apart(*launched, options)) return run_apart(executable, level.chosen, options, file, shape, *launched);
  World world = meet(shape, *launched, agreement_of(file.build(), level.chosen, shape, options), options.timeout);
  world.manifest = file.manifest();
  const std::unique_ptr<EndRequests> end_requests = hear_end_requests(endable_of(options), world);
  return run_process(executable, options, file, world, launched->rank);
}

}  // namespace

int main(std::span<const LevelProgram> programs, int argc, char** argv) {
  const char* name = programs.front().executable->name;
  try {
    const Options options = parse_options(argc, argv);
    const LevelProgram& chosen = choose_level(programs, options.arch);
    if (!options.help && !options.info) check_level(chosen);
    const WholeExecutable whole(*chosen.executable, !options.no_generate);
    return run(whole.get(), {chosen, programs}, options, argv);
  } catch (const Failure& failure) {
    if (!failure.text.empty()) fprintf(stderr, "%s: error: %s\n", name, failure.text.c_str());
    return failure.code;
  } catch (const std::exception& error) {
    fprintf(stderr, "%s: error: %s\n", name, error.what());
    return kEnvironment;
  }
}

int main(const Executable& executable, int argc, char** argv, Level level) {
  const LevelProgram only = {level, &executable};
  return main({&only, 1}, argc, argv);
}

}  // namespace weft
