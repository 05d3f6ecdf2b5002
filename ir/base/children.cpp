// Children are started in process groups of their own and are recorded. A thread that the signal handler wakes ends
// them.
#include "ir/base/children.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace weftc {

namespace {

/// The folders to remove, and the process groups to end, when a signal ends this program.
struct Cleanup {
  std::mutex mutex;
  std::map<std::string, int> folders;  // with the descriptors of their marks
  std::set<pid_t> groups;
  bool is_over = false;  // during an orderly end: no child is started
  int signal = 0;        // the signal that began it
};
Cleanup& cleanup() {
  static Cleanup instance;
  return instance;
}

/// Tries again while something, such as a compiler that is just ending, still puts files there.
void remove_folder(const std::string& path) {
  std::error_code error;
  for (int attempt = 0; attempt < 20; ++attempt) {
    std::filesystem::remove_all(path, error);
    if (!std::filesystem::exists(path, error)) return;
    usleep(10'000);
  }
}

/// Set by the signal handler. From then on no child's end is reported.
std::atomic<bool> is_ending = false;
/// Whether the next signal begins an orderly end.
std::atomic<bool> ends_in_order = false;

/// Ends the children, and begins an orderly end.
void end_children(int number) {
  Cleanup& all = cleanup();
  const std::lock_guard lock(all.mutex);
  all.is_over = true;
  if (number != 0) all.signal = number;
  for (const pid_t group : all.groups) kill(-group, SIGKILL);
}

int signal_pipe[2] = {-1, -1};
std::atomic<bool> has_come = false;  // a signal came

void on_signal(int number) {
  const int error = errno;
  is_ending = !ends_in_order || has_come;
  has_come = true;
  const unsigned char byte = static_cast<unsigned char>(number);
  [[maybe_unused]] const ssize_t written = write(signal_pipe[1], &byte, 1);
  errno = error;
}

/// A signal handler cannot remove folders, so it tells a thread through a pipe. After a fork the child has neither that
/// thread nor a pipe of its own, so it starts again. Programs that the compiler runs have the default handlers.
void watch_signals() {
  static pid_t watched_by = 0;
  if (watched_by == getpid() || pipe2(signal_pipe, O_CLOEXEC) != 0) return;
  watched_by = getpid();
  std::thread([] {
    for (;;) {
      unsigned char number = 0;
      while (read(signal_pipe[0], &number, 1) < 0 && errno == EINTR) {
      }
      if (is_ending) end_by_signal(number);
      end_children(number);
    }
  }).detach();
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
}

}  // namespace

void end_by_signal(int number) {
  is_ending = true;
  Cleanup& all = cleanup();
  const std::lock_guard lock(all.mutex);
  for (const pid_t group : all.groups) kill(-group, SIGKILL);
  for (const auto& [folder, mark] : all.folders) remove_folder(folder);
  signal(number, SIG_DFL);
  kill(getpid(), number);
  _exit(128 + number);
}

/// Waits in a thread of its own, so that children are ended whichever thread waits for them.
struct OrderlyEnd::Timer {
  explicit Timer(double seconds) : thread_([this, seconds] { wait(seconds); }) {}
  ~Timer() {
    {
      const std::lock_guard lock(mutex_);
      is_stopped_ = true;
    }
    stopped_.notify_one();
    thread_.join();
  }

 private:
  void wait(double seconds) {
    std::unique_lock lock(mutex_);
    if (!stopped_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return is_stopped_; })) end_children(0);
  }

  std::mutex mutex_;
  std::condition_variable stopped_;
  bool is_stopped_ = false;
  std::thread thread_;
};

OrderlyEnd::OrderlyEnd() {
  watch_signals();
  ends_in_order = true;
}

OrderlyEnd::~OrderlyEnd() {
  timer_.reset();
  ends_in_order = false;
  const std::lock_guard lock(cleanup().mutex);
  cleanup().is_over = false;
}

bool OrderlyEnd::is_over() const {
  const std::lock_guard lock(cleanup().mutex);
  return cleanup().is_over;
}

int OrderlyEnd::signal() const {
  const std::lock_guard lock(cleanup().mutex);
  return cleanup().signal;
}

void OrderlyEnd::end_in(double seconds) { timer_ = std::make_unique<Timer>(seconds); }

/// A folder that holds this file is a work folder. Its owner holds a lock on the file, which ends with the owner.
constexpr const char *kWorkFolder = "weft-", *kMark = "/.weft-work-folder";

/// Opens the mark of a work folder and locks it. Returns -1 if the file cannot be opened or another program holds the
/// lock.
static int lock_mark(const std::string& file, int flags) {
  const int mark = open(file.c_str(), flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (mark < 0 || flock(mark, LOCK_EX | LOCK_NB) == 0) return mark;
  close(mark);
  return -1;
}

/// Removes the folders of programs that were killed.
static void sweep(const std::string& root) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error)) {
    const std::string path = entry->path().string();
    if (!entry->path().filename().string().starts_with(kWorkFolder)) continue;
    const int mark = lock_mark(path + kMark, 0);
    if (mark < 0) continue;
    remove_folder(path);
    close(mark);
  }
}

WorkFolder::WorkFolder() {
  watch_signals();
  const char* variable = std::getenv("TMPDIR");
  const std::string root = variable != nullptr && *variable != '\0' ? variable : "/tmp";
  std::string pattern = root + "/" + kWorkFolder + "XXXXXX";
  const std::lock_guard lock(cleanup().mutex);
  sweep(root);
  if (mkdtemp(pattern.data()) == nullptr) return;
  path_ = pattern;
  // The file is locked before it gets the name by which others find it.
  const std::string unnamed = path_ + kMark + ".new";
  const int mark = lock_mark(unnamed, O_CREAT);
  cleanup().folders[path_] = mark;
  if (mark >= 0) std::rename(unnamed.c_str(), (path_ + kMark).c_str());
}

WorkFolder::~WorkFolder() {
  if (path_.empty()) return;
  // Two threads must not remove one folder at once.
  const std::lock_guard lock(cleanup().mutex);
  remove_folder(path_);
  close(cleanup().folders[path_]);
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
    // A signal that arrives while the child starts finds it in the list.
    const std::lock_guard lock(cleanup().mutex);
    error = cleanup().is_over ? ECANCELED
                              : posix_spawnp(&child, arguments[0], &actions, &attributes, arguments.data(), environ);
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
  // A child that ends because this program is ending has not failed, so its end is not reported.
  while (is_ending) pause();
  const std::lock_guard lock(cleanup().mutex);
  cleanup().groups.erase(child);
  return status;
}

void kill_child(pid_t child) { kill(-child, SIGKILL); }

}  // namespace weftc
