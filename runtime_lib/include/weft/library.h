// A program inside a library (`--emit library`): its ranks are threads of the process that loads it, and function calls
// replace the command line. The emitted header of each library gives these functions C names.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "weft/program.h"

namespace weft {

/// A tensor in the library's memory, row-major.
struct TensorView {
  const void* data;
  size_t bytes;
  const int64_t* shape;
  int ndim;
};

/// Functions return 0 or an exit code; after the latter error() says what is wrong. Only one thread at a time may call
/// them.
class Library {
 public:
  /// Threads: all ranks are threads of this process. OneOfJob: this process is one rank of a job that a launcher
  /// started on one machine. Only rank 0 then takes inputs, runs and has outputs. The others follow it in a thread
  /// until it ends.
  enum class Ranks { Threads, OneOfJob };

  /// Starts the ranks with `threads` threads each (0: cores / ranks). `level` is the CPU level that the program is
  /// compiled for.
  Library(const Executable& executable, int threads, Ranks ranks, Level level = kLevel);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// Copies a whole tensor, which remains the input until it is set again. A tensor for a state is used by the next run
  /// only.
  int set_input(const char* name, const TensorView& tensor);
  int run();
  /// An output of the last run, valid until the next one.
  int get_output(const char* name, TensorView* tensor);
  /// Resets states to their initial values.
  int reset();
  /// The message of the last function that failed.
  const char* error() const { return error_.c_str(); }

 private:
  class Crew;
  template <class Action>
  int guarded(const Action& action);
  int lose(int code);

  std::unique_ptr<Crew> crew_;
  std::string error_, lost_text_;
  int lost_ = 0;  // the code with which the ranks ended, and why
};

}  // namespace weft
