// One rank behind the surface of weft/host.h: its memory, its streams and their threads.
#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "weft/host.h"
#include "world.h"

namespace weft {

/// A step that has run, for --trace.
struct Event {
  const Step step;
  int64_t index, begin_ns, end_ns;
};

/// One stream's position in the program.
struct Walk {
  std::unique_ptr<Team> team;
  std::vector<uint32_t> ticks;  // barriers entered with each rank
  std::vector<Event> steps;     // entered and not yet left, outer first
  std::vector<Event> trace;
  std::set<std::string> names;  // of the steps that have run, kept where one of them is to stall
  std::vector<char> scratch;  // of a small reduction in place
};

/// What a rank is told from the command line.
struct RankOptions {
  int threads = 1;
  double timeout = 60;
  bool poison = false, trace = false;
  bool in_process = false;  // ranks are threads: a failure must not end the process
  std::string stall = {};   // the step in which this rank stops, for tests
};

/// A byte range of a rank's own memory or window.
struct Range {
  bool in_window;
  int64_t offset, bytes;
};

/// Ends all ranks; of several failures the first is printed.
void report_failure(const char* name, const World& world, int rank, const Failure& failure);

struct RankState {
  RankState(const Executable& executable, const Program& program, World& world, int rank, const char* image,
            std::string_view manifest, const RankOptions& options);
  ~RankState();

  /// Runs one invocation on all streams, and meets the other ranks. Throws what any stream threw.
  void iterate();
  /// Fills own memory and window with NaN, except the kept ranges.
  void poison(const std::vector<Range>& keep);
  char* at(const Range& range) const;
  /// Throws where the step to stall in has not come.
  void check_stalled() const;
  [[noreturn]] void time_out(int stream, const std::string& awaited) const;
  void meet() const;

  const Executable& executable;
  const Program& program;
  World& world;
  const int rank;
  const char* const image;
  const std::string_view manifest;
  const RankOptions options;
  uint32_t epoch = 0;       // iterations started: the value of a raised flag
  uint32_t invocation = 0;  // counts as a user sees it: warm-up does not
  char* own = nullptr;
  std::vector<Walk> walks;  // one a stream

 private:
  void walk(int stream);
  void guarded_walk(int stream);
  void serve(int stream);
  void rethrow();
  std::string describe_streams() const;

  std::vector<std::thread> threads_;  // of all streams but the first
  Word started_{0}, done_{0}, sleepers_{0};
  bool stop_ = false;
  std::mutex failure_mutex_;
  std::vector<Failure> failures_;
};

}  // namespace weft
