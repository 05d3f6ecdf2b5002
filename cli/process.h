// System access of the command line: files, other programs, lines of progress.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/base/children.h"
#include "ir/base/output_file.h"

namespace weftc {

struct Options;

/// The file's text, or nullopt if it cannot be read. A pipe's text can be requested repeatedly.
std::optional<std::string> read_file(const std::string& path);

struct Finished {
  int exit_code = 0;     // 128 + the number of the signal that ended it; 127: could not be started; 124: took too long
  std::string out, err;  // the last 64 KiB of each
};
/// Runs a program and waits for it. After `seconds` it is killed, with the processes that it started.
Finished run_program(const std::vector<std::string>& command, double seconds);

/// "cannot run", "signal 11", "exit code 3": how a program ended, for messages.
std::string ending_text(const Finished& finished);

/// A line on standard error, unless --quiet.
void progress(const Options& options, const std::string& line);
/// The same for a finished stage, if it took long enough to be worth a line.
void progress(const Options& options, const std::string& stage, double seconds);

}  // namespace weftc
