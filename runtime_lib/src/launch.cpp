// Finding out how this process was started, starting ranks, and watching over them. Without a launcher the
// executable starts itself once for each rank, and all map one anonymous segment.
#include "launch.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>

#include "wait.h"
#include "whereabouts.h"

namespace weft {

namespace {

/// The variables that a launcher sets. If `local` is set and differs from the size, the job spans several
/// machines.
struct Launcher {
  const char *name, *command, *rank;
  const char* size[2];      // the first that is set counts the ranks
  const char* local;        // ranks on this machine
  const char* rank_here;    // this one's number among them
  const char* machines[2];  // the first that is set counts them
  const char* job[3];       // the first that is set names the job
};
/// In order of preference: a launcher may run inside another's job (mpirun in a batch script, torchrun in a step).
constexpr Launcher kLaunchers[] = {
    {"Open MPI",
     "mpirun -n",
     "OMPI_COMM_WORLD_RANK",
     {"OMPI_COMM_WORLD_SIZE"},
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     {},
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid"}},
    {"PMI",
     "mpiexec -n",
     "PMI_RANK",
     {"PMI_SIZE"},
     "MPI_LOCALNRANKS",
     "MPI_LOCALRANKID",
     {"SLURM_STEP_NUM_NODES"},
     {"PMI_JOBID", "HYDRA_JOBID", "PMI_PORT"}},
    {"torchrun",
     "torchrun --nproc-per-node",
     "RANK",
     {"WORLD_SIZE"},
     "LOCAL_WORLD_SIZE",
     "LOCAL_RANK",
     {},
     {"MASTER_PORT"}},
    {"Slurm",
     "srun -n",
     "SLURM_PROCID",
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     nullptr,
     "SLURM_LOCALID",
     {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"},
     {"SLURM_JOB_ID", "SLURM_JOBID"}},
};
constexpr const Launcher& kTorchrun = kLaunchers[2];
constexpr const Launcher& kSlurm = kLaunchers[3];

/// Variables that srun sets in addition if it is told which PMI to use. With PMI 2 the table above finds the launcher.
constexpr const char* kRanksOfPmi[] = {"PMIX_RANK", "PALS_RANKID"};

constexpr const char *kRankVariable = "WEFT_RANK", *kSegmentVariable = "WEFT_SEGMENT", *kParentVariable = "WEFT_PARENT";

// The value of a variable as a number; throws Failure (environment) for any other text.
int number_in(const char* name, const char* value) {
  int out = -1;
  const auto [end, error] = std::from_chars(value, value + strlen(value), out);
  if (error != std::errc() || *end != '\0' || out < 0)
    fail(kEnvironment, "%s is '%s'; a number is expected", name, value);
  return out;
}

// Appends a file's text; false if it cannot be opened.
bool append_text(const std::string& file, std::string& to) {
  FILE* in = fopen(file.c_str(), "r");
  if (in == nullptr) return false;
  char block[4096];
  for (size_t n; (n = fread(block, 1, sizeof block, in)) > 0;) to.append(block, n);
  fclose(in);
  return true;
}

/// The first of the variables that is set; nullptr if none is.
template <size_t n>
const char* first_set(const char* const (&names)[n], const Environment& env) {
  for (const char* name : names)
    if (name != nullptr && env(name) != nullptr) return name;
  return nullptr;
}

/// Inside a batch script Slurm sets the variables of task 0 although no task was launched: only steps have a step id. A
/// step of one task is a shell or a batch script's line as well; the executable starts its ranks there.
bool is_no_launch(const Launcher& launcher, const Environment& env) {
  if (&launcher != &kSlurm) return false;
  if (env("SLURM_JOB_ID") != nullptr && env("SLURM_STEP_ID") == nullptr) return true;
  const char* size = first_set(launcher.size, env);
  return size != nullptr && std::string_view(env(size)) == "1";
}

/// The nearest ancestor process that is not a rank itself: the launcher's agent on this machine, above any wrapper
/// scripts.
int agent_of(const Launcher& launcher) {
  const std::string variable = std::string(launcher.rank) + "=";
  int pid = getppid();
  for (int level = 0; level < 16 && pid > 1; ++level) {
    std::string environment(1, '\0');  // variables end with a zero, so each follows one
    if (!append_text(text("/proc/%d/environ", pid), environment)) break;
    if (environment.find('\0' + variable) == std::string::npos) break;
    std::string status;
    if (!append_text(text("/proc/%d/stat", pid), status)) break;
    const size_t name_end = status.rfind(')');  // "PID (NAME) STATE PARENT ..."
    if (name_end == std::string::npos || sscanf(status.c_str() + name_end, ") %*c %d", &pid) != 1) break;
  }
  return pid;
}

/// The name of the job, from this launcher's own variables only: the variables of another launcher may be set
/// too, and differ from rank to rank.
std::string job_of(const Launcher& launcher, const Environment& env) {
  const char* name = first_set(launcher.job, env);
  if (name == nullptr && &launcher == &kTorchrun) return "";
  std::string job = launcher.name;
  job += name != nullptr ? "-" + std::string(env(name)) : "-of-" + std::to_string(agent_of(launcher));
  if (const char* step = env("SLURM_STEP_ID"); step != nullptr && &launcher == &kSlurm) job += "-" + std::string(step);
  for (char& c : job)
    if (!isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '.') c = '_';
  return job;
}

Machines machines_of(const Launcher& launcher, int size, const Environment& env) {
  const char *local = launcher.local != nullptr ? env(launcher.local) : nullptr,
             *count = first_set(launcher.machines, env);
  if (local != nullptr && number_in(launcher.local, local) != size) return Machines::Several;
  if (count != nullptr && number_in(count, env(count)) > 1) return Machines::Several;
  const bool is_told_root = &launcher == &kTorchrun && env("MASTER_ADDR") != nullptr;
  return is_told_root && local == nullptr ? Machines::Unsaid : Machines::One;
}

/// The variables for rank and size that a launcher has set.
struct LauncherVariables {
  const Launcher& launcher;
  const char *rank, *size;  // nullptr: not set
  bool is_full() const { return rank != nullptr && size != nullptr; }
  bool is_half() const { return (rank != nullptr) != (size != nullptr); }
};

/// The first launcher that has set both. RANK and WORLD_SIZE are names that scripts use as well: one of them alone is
/// an error only if no other launcher is found.
std::optional<LauncherVariables> find_setting(const Environment& env) {
  std::optional<LauncherVariables> half;
  for (const Launcher& l : kLaunchers) {
    if (is_no_launch(l, env)) continue;
    const char* size = first_set(l.size, env);
    const LauncherVariables setting{l, env(l.rank) == nullptr ? nullptr : l.rank, size};
    if (setting.is_full() && (!half || &half->launcher == &kTorchrun)) return setting;
    if (setting.is_half() && !half) half.emplace(setting);
  }
  return half;
}

}  // namespace

std::optional<Launched> find_launcher(const Environment& env) {
  const std::optional<LauncherVariables> setting = find_setting(env);
  if (!setting) return std::nullopt;
  const Launcher& l = setting->launcher;
  if (setting->is_half())
    fail(kEnvironment, "%s is set, but %s is not: the environment of %s is incomplete",
         setting->rank ? l.rank : setting->size, setting->rank ? l.size[0] : l.rank, l.name);
  Launched out{number_in(l.rank, env(l.rank)), number_in(setting->size, env(setting->size)), "", l.command};
  if (out.rank >= out.size) fail(kEnvironment, "%s=%d is not below %s=%d", l.rank, out.rank, setting->size, out.size);
  out.machines = machines_of(l, out.size, env);
  if (l.local != nullptr && env(l.local) != nullptr) out.ranks_here = number_in(l.local, env(l.local));
  if (env(l.rank_here) != nullptr) out.rank_here = number_in(l.rank_here, env(l.rank_here));
  if (out.machines != Machines::Several) out.job = job_of(l, env);
  out.is_bare_srun = &l == &kSlurm && first_set(kRanksOfPmi, env) == nullptr;
  return out;
}

std::optional<Child> find_parent(const Environment& env) {
  const char *rank = env(kRankVariable), *fd = env(kSegmentVariable);
  if (rank == nullptr && fd == nullptr) return std::nullopt;
  if (rank == nullptr || fd == nullptr)
    fail(kEnvironment, "%s and %s belong together", kRankVariable, kSegmentVariable);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // No signal is sent for a parent that ended before that.
  const char* parent = env(kParentVariable);
  if (parent != nullptr && number_in(kParentVariable, parent) != getppid())
    fail(kEnvironment, "the process that started rank %s has ended", rank);
  return Child{number_in(kRankVariable, rank), number_in(kSegmentVariable, fd)};
}

World attach_world(const WorldShape& shape, int fd) {
  const int64_t bytes = World::bytes_of(shape);
  struct stat status = {};
  if (fstat(fd, &status) != 0 || status.st_size != bytes)
    fail(kEnvironment, "the shared segment has %ld bytes instead of %ld: the ranks run different programs",
         long(status.st_size), long(bytes));
  void* memory = mmap(nullptr, size_t(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    fail(kEnvironment, "cannot map %ld bytes of shared memory: %s", long(bytes), strerror(errno));
  close(fd);
  return World(shape, static_cast<char*>(memory));
}

namespace {

std::vector<std::string> child_environment(int rank, int fd) {
  std::vector<std::string> out;
  for (char** variable = environ; *variable != nullptr; ++variable) out.emplace_back(*variable);
  out.push_back(text("%s=%d", kRankVariable, rank));
  out.push_back(text("%s=%d", kSegmentVariable, fd));
  out.push_back(text("%s=%d", kParentVariable, int(getpid())));
  return out;
}

pid_t start_rank(int rank, int fd, char** argv) {
  const std::vector<std::string> variables = child_environment(rank, fd);
  std::vector<char*> pointers;
  for (const std::string& variable : variables) pointers.push_back(const_cast<char*>(variable.c_str()));
  pointers.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, argv, pointers.data());
  if (error != 0) fail(kEnvironment, "cannot start rank %d: %s", rank, strerror(error));
  return pid;
}

/// The code a rank ended with; a signal is reported and counts as the environment's fault.
int code_of(const Executable& executable, const World& world, int rank, int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const int number = WTERMSIG(status);
  if (world.set_failure(rank, kEnvironment))
    fprintf(stderr, "%s: rank %d was killed by signal %d (%s) %s\n", executable.name, rank, number, strsignal(number),
            whereabouts(world, rank).c_str());
  return kEnvironment;
}

/// Waits for all ranks. Once one has failed, the others notice at their next wait; those that do not are killed.
int wait_for_ranks(const Executable& executable, const World& world, std::vector<pid_t> ranks) {
  constexpr int64_t kGrace = 2'000'000'000;
  int first_code = kOk;
  size_t left = ranks.size();
  int64_t kill_at = INT64_MAX;
  while (left > 0) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, first_code == kOk ? 0 : WNOHANG);
    const auto found = std::find(ranks.begin(), ranks.end(), pid);
    if (pid > 0 && found != ranks.end()) {
      const int rank = int(found - ranks.begin()), code = code_of(executable, world, rank, status);
      *found = 0;
      --left;
      if (code == kOk || first_code != kOk) continue;
      world.set_failure(rank, code);
      first_code = world.failure();
      kill_at = now_ns() + kGrace;
    } else if (pid <= 0 && first_code != kOk) {
      usleep(5'000);
      if (now_ns() < kill_at) continue;
      for (const pid_t rank : ranks)
        if (rank > 0) kill(rank, SIGKILL);
    }
  }
  return first_code;
}

}  // namespace

int start_ranks(const Executable& executable, const ImageFile& file, const WorldShape& shape, const Endable& endable,
                char** argv) {
  const int fd = memfd_create("weft", 0);  // inherited
  if (fd < 0 || ftruncate(fd, World::bytes_of(shape)) != 0)
    fail(kEnvironment, "cannot make %ld bytes of shared memory: %s", long(World::bytes_of(shape)), strerror(errno));
  World world = attach_world(shape, dup(fd));
  world.build().store(file.build());
  world.manifest = file.manifest();
  const std::unique_ptr<EndRequests> end_requests = hear_end_requests(endable, world);  // ranks die with this process
  std::vector<pid_t> ranks;
  try {
    for (int rank = 0; rank < shape.ranks; ++rank) ranks.push_back(start_rank(rank, fd, argv));
  } catch (const Failure&) {
    for (const pid_t rank : ranks) kill(rank, SIGKILL);
    throw;
  }
  close(fd);
  return wait_for_ranks(executable, world, ranks);
}

}  // namespace weft
