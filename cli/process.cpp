#include "cli/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "cli/options.h"
#include "ir/base/text.h"

namespace weftc {

namespace {

constexpr size_t kKeptBytes = size_t{64} * 1024;

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

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) == 0) read_end = ends[0], write_end = ends[1];
  }
  ~Pipe() {
    if (read_end >= 0) close(read_end);
    close_write();
  }
  void close_write() {
    if (write_end >= 0) close(write_end);
    write_end = -1;
  }
};

/// Starts the program in a process group of its own; 0 if it cannot be started.
pid_t start(const std::vector<std::string>& command, const Pipe& out, const Pipe& err) {
  std::vector<char*> arguments;
  for (const std::string& part : command) arguments.push_back(const_cast<char*>(part.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write_end, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write_end, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error == 0 ? pid : 0;
}

/// Reads what is there; false at the end of the stream.
bool drain(int fd, std::string& text) {
  char block[8192];
  const ssize_t n = read(fd, block, sizeof block);
  if (n <= 0) return n < 0 && errno == EINTR;
  text.append(block, static_cast<size_t>(n));
  if (text.size() > 2 * kKeptBytes) text.erase(0, text.size() - kKeptBytes);
  return true;
}

/// Collects both streams until they end; false when the time is over.
bool collect(const Pipe& out, const Pipe& err, Finished& finished, double seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  pollfd streams[] = {{out.read_end, POLLIN, 0}, {err.read_end, POLLIN, 0}};
  std::string* texts[] = {&finished.out, &finished.err};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    const double left = std::chrono::duration<double>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return false;
    if (poll(streams, 2, static_cast<int>(left * 1000) + 1) < 0 && errno != EINTR) return true;
    for (int i = 0; i < 2; ++i)
      if (streams[i].fd >= 0 && streams[i].revents != 0 && !drain(streams[i].fd, *texts[i])) streams[i].fd = -1;
  }
  return true;
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

std::string write_file(const std::string& path, const std::string& text) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) return error.message();
  FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return std::strerror(errno);
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  return written && closed ? "" : std::strerror(errno);
}

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) return {};
  return text.str();
}

Finished run_program(const std::vector<std::string>& command, double seconds) {
  Finished finished;
  Pipe out, err;
  const pid_t pid = start(command, out, err);
  if (pid == 0) {
    finished.exit_code = 127;
    return finished;
  }
  {
    const std::lock_guard lock(cleanup().mutex);
    cleanup().groups.insert(pid);
  }
  out.close_write();
  err.close_write();
  const bool in_time = collect(out, err, finished, seconds);
  if (!in_time) kill(-pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  {
    const std::lock_guard lock(cleanup().mutex);
    cleanup().groups.erase(pid);
  }
  finished.exit_code = !in_time              ? 124
                       : WIFEXITED(status)   ? WEXITSTATUS(status)
                       : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                             : 127;
  return finished;
}

std::string ending_text(const Finished& finished) {
  if (finished.exit_code == 127) return "cannot be run";
  if (finished.exit_code > 128) return format("ended by signal {}", finished.exit_code - 128);
  return format("exit code {}", finished.exit_code);
}

void progress(const Options& options, const std::string& line) {
  if (!options.quiet) std::fprintf(stderr, "weft: %s\n", line.c_str());
}

void progress(const Options& options, const std::string& stage, double seconds) {
  constexpr double kWorthALine = 1;
  char text[32];
  std::snprintf(text, sizeof text, "  %.1f s", seconds);
  if (seconds >= kWorthALine) progress(options, stage + text);
}

}  // namespace weftc
