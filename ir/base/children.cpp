// Children are started in process groups of their own and are noted; a thread that the signal handler wakes
// ends them.
#include "ir/base/children.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

namespace weftc {

namespace {

/// The folders to remove, and the process groups to end, when a signal ends this program.
struct Cleanup {
  std::mutex mutex;
  std::set<std::string> folders;
  std::set<pid_t> groups;
};
Cleanup& cleanup() {
  static Cleanup instance;
  return instance;
}

/// Again while something, such as a compiler that is just ending, still puts files there.
void remove_folder(const std::string& path) {
  std::error_code error;
  for (int attempt = 0; attempt < 20; ++attempt) {
    std::filesystem::remove_all(path, error);
    if (!std::filesystem::exists(path, error)) return;
    usleep(10'000);
  }
}

/// Set by the signal's handler: no child's end is told from then on.
std::atomic<bool> is_ending = false;

[[noreturn]] void end_by_signal(int number) {
  Cleanup& all = cleanup();
  const std::lock_guard lock(all.mutex);
  for (const pid_t group : all.groups) kill(-group, SIGKILL);
  for (const std::string& folder : all.folders) remove_folder(folder);
  signal(number, SIG_DFL);
  kill(getpid(), number);
  _exit(128 + number);
}

int signal_pipe[2] = {-1, -1};

void on_signal(int number) {
  is_ending = true;
  const int error = errno;
  const unsigned char byte = static_cast<unsigned char>(number);
  [[maybe_unused]] const ssize_t written = write(signal_pipe[1], &byte, 1);
  errno = error;
}

/// Removing folders is no work for a signal handler: a thread does it, told through a pipe. After a fork the child has
/// neither that thread nor a pipe of its own, so it starts again. Programs that we run have the default handlers.
void watch_signals() {
  static pid_t watched_by = 0;
  if (watched_by == getpid() || pipe2(signal_pipe, O_CLOEXEC) != 0) return;
  watched_by = getpid();
  std::thread([] {
    unsigned char number = 0;
    while (read(signal_pipe[0], &number, 1) < 0 && errno == EINTR) {
    }
    end_by_signal(number);
  }).detach();
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
}

}  // namespace

WorkFolder::WorkFolder() {
  watch_signals();
  const char* root = std::getenv("TMPDIR");
  std::string pattern = std::string(root != nullptr && *root != '\0' ? root : "/tmp") + "/weft-XXXXXX";
  const std::lock_guard lock(cleanup().mutex);
  if (mkdtemp(pattern.data()) == nullptr) return;
  path_ = pattern;
  cleanup().folders.insert(path_);
}

WorkFolder::~WorkFolder() {
  if (path_.empty()) return;
  // Two threads that remove one folder get into each other's way.
  const std::lock_guard lock(cleanup().mutex);
  remove_folder(path_);
  cleanup().folders.erase(path_);
}

std::optional<pid_t> start_child(const std::vector<std::string>& command, int out, int err) {
  watch_signals();
  std::vector<char*> arguments;
  for (const std::string& part : command) arguments.push_back(const_cast<char*>(part.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t child = 0;
  int error = 0;
  {
    // A signal that comes while the child starts finds it in the list.
    const std::lock_guard lock(cleanup().mutex);
    error = posix_spawnp(&child, arguments[0], &actions, &attributes, arguments.data(), environ);
    if (error == 0) cleanup().groups.insert(child);
  }
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  errno = error;
  return error == 0 ? std::optional(child) : std::nullopt;
}

std::optional<int> end_of_child(pid_t child, bool waits) {
  int status = 0;
  pid_t found = -1;
  while ((found = waitpid(child, &status, waits ? 0 : WNOHANG)) < 0 && errno == EINTR) {
  }
  if (found != child) return {};
  // A child that ends because this program is ending has not failed: nobody is to hear of it.
  while (is_ending) pause();
  const std::lock_guard lock(cleanup().mutex);
  cleanup().groups.erase(child);
  return status;
}

void kill_child(pid_t child) { kill(-child, SIGKILL); }

}  // namespace weftc
