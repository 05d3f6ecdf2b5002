// What a rank is made of: its program, its weights, its threads.
#include "rank_maker.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "launch.h"
#include "service.h"
#include "tensors.h"

namespace weft {

WorldShape world_shape(const Executable& executable, const Options& options) {
  WorldShape shape{
      .ranks = executable.world, .staging_bytes = staging_bytes(executable, options), .notes = kNotesOfRank};
  if (options.serves) shape.staging_bytes = round_up(shape.staging_bytes, kPage) + request_board_bytes(executable);
  for (const Program& program : executable.programs) {
    shape.streams = std::max(shape.streams, int(program.streams.size()));
    shape.signals = std::max(shape.signals, program.signals);
    if (kWindowsInWorld) shape.window_bytes = std::max(shape.window_bytes, program.window_bytes);
  }
  return shape;
}

namespace {

/// Cores of this rank: a launcher may have bound it to its own; otherwise the ranks share the machine.
int default_threads(int ranks) {
  cpu_set_t set;
  const int bound = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  const std::optional<Launched> launched =
      getenv("WEFT_RANK") == nullptr && ranks > 1 ? find_launcher(getenv) : std::nullopt;
  if (launched && bound < int(sysconf(_SC_NPROCESSORS_ONLN))) return std::max(1, bound);
  return std::max(1, bound / (launched && launched->ranks_here > 0 ? launched->ranks_here : ranks));
}

RankOptions rank_options(const Options& options, int rank, int threads) {
  return {.threads = threads,
          .timeout = options.timeout,
          .poison = options.poison,
          .trace = !options.trace.empty(),
          .graph = !options.no_graph,
          .in_process = options.ranks_as_threads,
          .stall = options.stall_rank == rank ? options.stall_step : "",
          .link = options.link};
}

}  // namespace

std::unique_ptr<RankBase> make_rank(Target& target, const Executable& executable, const Options& options,
                                    ImageFile& file, World& world, int rank) {
  const Program& program = program_of(executable, rank);
  const int threads = options.threads > 0 ? options.threads : default_threads(executable.world);
  RankOptions of_rank = rank_options(options, rank, threads);
  if (options.serves) of_rank.complaint = board_of(executable, world).complaint(RequestBoard::Phase::Run, rank);
  return target.make_rank(program, world, rank, file.map_image(program, rank), file.manifest(), of_rank);
}

}  // namespace weft
