// An error that ends the program: an exit code and one line of text. It is thrown through emitted code and caught at
// the start of a stream's thread.
#pragma once
#include <string>

namespace weft {

/// Exit codes, shared with the compiler.
enum ExitCode : int {
  kOk = 0,
  kWrongInput = 1,
  kUsage = 2,
  kUnsupported = 3,
  kEnvironment = 6,
  kBug = 70,
  kTimedOut = 124,
  kTerminated = 143  // as of a process that SIGTERM ends
};

/// The exception: an exit code, and the line to print.
struct Failure {
  int code;
  std::string text;  // empty: the failure of another rank or stream was noticed, which reports it
  // A rank whose process is gone; its last step is added to the text.
  int gone = -1;
  bool names_rank = false;  // the text begins with the rank whose failure it is
};

/// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string text(const char* format, ...);

/// Throws a Failure with that code and text.
[[noreturn, gnu::format(printf, 2, 3)]] void fail(int code, const char* format, ...);

}  // namespace weft
