// Child programs and temporary folders: both end with this program, also when a signal ends it. An interrupted compiler
// must leave neither a running g++ nor gigabytes below /tmp.
#pragma once
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weftc {

/// A temporary folder below TMPDIR. It is removed with its contents at the end of scope, and when an interrupt, a
/// hang-up or a termination signal ends this program. Folders of killed programs are removed by the next one.
class WorkFolder {
 public:
  WorkFolder();
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  /// Empty if no folder could be created.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// While an object exists, an interrupt, a termination signal or the end of a given time ends the children, and no
/// child is started any more. This program itself then finishes in order and ends. A second signal ends the program as
/// usual. There is at most one object at a time.
class OrderlyEnd {
 public:
  OrderlyEnd();
  ~OrderlyEnd();
  OrderlyEnd(const OrderlyEnd&) = delete;
  OrderlyEnd& operator=(const OrderlyEnd&) = delete;
  /// Whether a signal came, or the time is over.
  bool is_over() const;
  /// The received signal; 0 without one.
  int signal() const;
  /// Sets the end of the time, in seconds from now.
  void end_in(double seconds);

 private:
  struct Timer;
  std::unique_ptr<Timer> timer_;
};
/// Ends this program as the signal would, with its folders and children.
[[noreturn]] void end_by_signal(int number);

/// Starts a program with these descriptors as standard output and error; nothing if it cannot be started (errno says
/// why). It is in a process group of its own. An interrupt from the terminal reaches it only through this program,
/// which then ends the whole group.
std::optional<pid_t> start_child(const std::vector<std::string>& command, int out, int err);
/// The child's status (see waitpid) once it has ended; nothing while it runs. With `waits`, waits for its end.
std::optional<int> end_of_child(pid_t child, bool waits);
/// Ends the child and its own children; end_of_child must still be called.
void kill_child(pid_t child);

}  // namespace weftc
