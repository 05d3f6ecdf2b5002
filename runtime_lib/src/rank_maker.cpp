// Makes a rank from its program, its weights and its threads.
#include "rank_maker.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "cores.h"
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

/// A launcher may have bound the rank to cores of its own; otherwise the ranks share those of the machine.
CoreShare share_of(const Options& options, int rank, int ranks, size_t cores) {
  const bool is_own_process = getenv("WEFT_RANK") == nullptr && ranks > 1 && !options.ranks_as_threads;
  const std::optional<Launched> launched = is_own_process ? find_launcher(getenv) : std::nullopt;
  if (!launched) return {rank, ranks};
  const size_t online = size_t(sysconf(_SC_NPROCESSORS_ONLN));
  // A set with more cores than each rank's share belongs to several ranks, which --bind must distinguish.
  const bool is_shared = options.binds && cores * size_t(std::max(1, launched->ranks_here)) > online;
  if (cores < online && !is_shared) return {};
  return {launched->rank_here.value_or(rank), launched->ranks_here > 0 ? launched->ranks_here : ranks};
}

RankOptions rank_options(const Options& options, int rank, int ranks) {
  const std::vector<int> cores = allowed_cores();
  const CoreShare share = share_of(options, rank, ranks, cores.size());
  const int threads = options.threads > 0 ? options.threads : default_threads(int(cores.size()), share);
  return {.threads = threads,
          .cores = options.binds ? cores_of(cores, share, threads) : std::vector<int>(),
          .timeout = options.timeout,
          .poison = options.poison,
          .trace = !options.trace.empty(),
          .check_nan = options.check_nan,
          .check_files = options.check,
          .graph = !options.no_graph,
          .in_process = options.ranks_as_threads,
          .stall = options.stall_rank == rank ? options.stall_step : "",
          .link = options.link};
}

}  // namespace

std::unique_ptr<RankBase> make_rank(Target& target, const Executable& executable, const Options& options,
                                    ImageFile& file, World& world, int rank) {
  const Program& program = program_of(executable, rank);
  RankOptions of_rank = rank_options(options, rank, executable.world);
  if (options.serves) of_rank.complaint = board_of(executable, world).complaint(RequestBoard::Phase::Run, rank);
  return target.make_rank(program, world, rank, file.map_image(program, rank), file.manifest(), of_rank);
}

}  // namespace weft
