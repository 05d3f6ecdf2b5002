// The start of ranks: by this program itself, or by a launcher whose environment variables say which rank this process
// is.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "end_request.h"
#include "image_file.h"
#include "world.h"

namespace weft {

using Environment = std::function<const char*(const char* name)>;  // getenv, or a table in tests

/// The number of machines of a launcher's job. Unsaid: the variables were set by hand, with the address of rank 0.
enum class Machines { One, Several, Unsaid };

/// This process as one rank of a launcher's job.
struct Launched {
  int rank, size;
  std::string job;      // the job's name on this machine; empty if there is no name, or several machines
  const char* command;  // the command that starts such jobs
  Machines machines = Machines::One;
  int ranks_here = 0;                 // on this machine; 0: unknown
  std::optional<int> rank_here = {};  // this rank's index among them, if known
  bool is_bare_srun = false;          // srun without PMI: it starts the ranks, but tells MPI nothing
};

/// Empty if no launcher started this process. Throws Failure (environment) on half-set variables.
std::optional<Launched> find_launcher(const Environment& environment);

/// A mapped shared segment that lives as long as the process.
World attach_world(const WorldShape& shape, int fd);

/// A rank started by start_ranks: its number and the segment's descriptor.
struct Child {
  int rank, fd;
};
std::optional<Child> find_parent(const Environment& environment);

/// Starts this program once for each rank, waits for all, and returns the exit code of the first that failed. `file` is
/// the one that the ranks read.
int start_ranks(const Executable& executable, const ImageFile& file, const WorldShape& shape, const Endable& endable,
                char** argv);

}  // namespace weft
