// A program inside a library (`--emit library`): its ranks are threads of the process that loads it, and calls take the
// place of the command line. The emitted header of each library gives these functions C names.
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

/// Functions give 0 or an exit code; error() then says what is wrong. One thread at a time may call them.
class Library {
 public:
  /// All ranks are threads of this process, or this process is one rank of a job on one machine that a launcher
  /// started; then only rank 0 is given inputs, runs and has outputs, and the others follow it in a thread until it
  /// goes.
  enum class Ranks { Threads, OneOfJob };

  /// Starts the ranks, with `threads` each (0: cores / ranks).
  /// `level` is what the program is compiled for.
  Library(const Executable& executable, int threads, Ranks ranks, Level level = kLevel);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// Copies a whole tensor, which stays the input until it is set anew. One that is a state holds for the next run.
  int set_input(const char* name, const TensorView& tensor);
  int run();
  /// What the last run gave, until the next one.
  int get_output(const char* name, TensorView* tensor);
  /// States begin anew.
  int reset();
  /// Of the last function that failed.
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
