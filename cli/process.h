// What the command line does with the machine: temporary folders that do not outlive it, files, other programs.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace weftc {

struct Options;

/// A folder of its own below TMPDIR, removed with all it holds: at the end of scope, and when an interrupt, a hang-up
/// or a termination signal ends the program.
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

/// Writes a whole file, and the folders above it; an error text, or "".
std::string write_file(const std::string& path, const std::string& text);
/// The file's text; nothing if it cannot be read.
std::optional<std::string> read_file(const std::string& path);

struct Finished {
  int exit_code = 0;     // 128 + the signal's number where one ended it; 127: could not be started; 124: took too long
  std::string out, err;  // the last 64 KiB of each
};
/// Runs a program and waits for it. After `seconds` it is killed, with the processes that it started.
Finished run_program(const std::vector<std::string>& command, double seconds);

/// "cannot run", "signal 11", "exit code 3": how a program ended, for messages.
std::string ending_text(const Finished& finished);

/// A line on standard error, unless --quiet.
void progress(const Options& options, const std::string& line);
/// The same for what is done already, if it took long enough to be worth a line.
void progress(const Options& options, const std::string& stage, double seconds);

}  // namespace weftc
