// Programs that this one runs, and its temporary folders: both end with it, also when a signal ends it. A
// compiler that is interrupted must leave neither a running g++ nor gigabytes below /tmp.
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
  /// Empty if none could be made.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// While there is one, an interrupt or a termination signal ends the children and not this program, which puts its
/// affairs in order and ends then; so does the end of a given time. No child is started any more. A second signal ends
/// the program as ever. There is one at a time.
class OrderlyEnd {
 public:
  OrderlyEnd();
  ~OrderlyEnd();
  OrderlyEnd(const OrderlyEnd&) = delete;
  OrderlyEnd& operator=(const OrderlyEnd&) = delete;
  /// Whether a signal came, or the time is over.
  bool is_over() const;
  /// The signal that came; 0: none.
  int signal() const;
  /// Sets the end of the time, in seconds from now.
  void end_in(double seconds);

 private:
  struct Timer;
  std::unique_ptr<Timer> timer_;
};
/// Ends this program as the signal would have done, with its folders and children.
[[noreturn]] void end_by_signal(int number);

/// Starts a program with its standard output and error in these descriptors; nothing where it cannot be started (errno
/// says why). It is in a process group of its own, so that an interrupt from the terminal reaches it only through this
/// program, which then ends the whole group.
std::optional<pid_t> start_child(const std::vector<std::string>& command, int out, int err);
/// The child's status (see waitpid) once it has ended; nothing while it runs. With `waits`, waits for its end.
std::optional<int> end_of_child(pid_t child, bool waits);
/// Ends the child and all that it started; end_of_child is still to be called.
void kill_child(pid_t child);

}  // namespace weftc
