// Who starts the ranks: this program itself, or a launcher whose environment variables say which rank this process is.
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

/// What a launcher says of the machines of its job. Unsaid: variables set by hand, with the address of rank 0.
enum class Machines { One, Several, Unsaid };

/// This process as one rank of a launcher's job.
struct Launched {
  int rank, size;
  std::string job;      // names the job on this machine; empty where nothing does, or there are several machines
  const char* command;  // that starts such jobs
  Machines machines = Machines::One;
  int ranks_here = 0;                 // on this machine; 0: unsaid
  std::optional<int> rank_here = {};  // this one's number among them, if it is said
  bool is_bare_srun = false;          // it counts the ranks, but speaks no PMI to them
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

/// Starts this program once for each rank, waits for all, and gives the exit code of the first that failed. The
/// file is theirs.
int start_ranks(const Executable& executable, const ImageFile& file, const WorldShape& shape, const Endable& endable,
                char** argv);

}  // namespace weft
