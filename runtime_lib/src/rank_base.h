// What main, tensors and reports need of a rank, whatever its target; and what a target adds to a process.
#pragma once
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "file_sums.h"
#include "link.h"
#include "weft/program.h"
#include "world.h"

namespace weft {

/// A step that has run, for --trace.
struct Event {
  const Step step;
  int64_t index, begin_ns, end_ns;
  int64_t waited_ns = 0;  // of that, for signals and for other ranks to come; on a device it begins behind its waits
  uint32_t invocation = 0;
  bool communicates = false;
  BlockRun block = {};
};

/// Which steps an invocation runs: all, or those of the parallel stream alone, or those of all others alone. What is
/// not there is not waited for: only time comes of it.
enum class Portion : uint8_t { Whole, Computation, Communication };

/// What a rank is told from the command line.
struct RankOptions {
  int threads = 1;
  std::vector<int> cores = {};  // one for each thread, to which it keeps; empty: wherever the system puts it
  double timeout = 60;
  bool poison = false, trace = false;
  bool check_nan = false;     // look at what each step computes
  bool check_files = false;   // compare also large files with those of other ranks
  bool graph = true;          // cuda: replay a captured graph
  bool in_process = false;    // ranks are threads: a failure must not end the process
  std::string stall = {};     // the step in which this rank stops, for tests
  char* complaint = nullptr;  // where a wrong input that only the program notices is noted; null: it ends the run
  LinkSpeed link = {};
};

/// A byte range of a rank's own memory or window.
struct Range {
  bool in_window;
  int64_t offset, bytes;
};

/// Bytes of a rank's memory on its device; all 0 where there is none.
struct DeviceMemory {
  int64_t own = 0, window = 0, weights = 0, scratch = 0;
  int64_t total() const { return own + window + weights + scratch; }
};

/// A number that is not finite: when it was seen, 0 if none was, and what has computed it.
struct Oddity {
  int64_t ns = 0;
  std::string text = {};
};

/// Ends all ranks; of several failures the first is printed.
void report_failure(const char* name, const World& world, int rank, const Failure& failure);

struct RankBase {
  RankBase(const Executable& executable, const Program& program, World& world, int rank, const char* image,
           std::string_view manifest, const RankOptions& options);
  virtual ~RankBase() = default;
  RankBase(const RankBase&) = delete;
  RankBase& operator=(const RankBase&) = delete;

  /// Does what iterate() would have to do before its first step, so that it is in nobody's measured time. All ranks
  /// call it, or none.
  virtual void make_ready() {}
  /// Runs one invocation on all streams, and enters the barrier of all ranks. Throws what any stream threw.
  virtual void iterate() = 0;
  /// Fills own memory and window with NaN, except the kept ranges.
  virtual void poison(const std::vector<Range>& keep) = 0;
  /// The address of a range for the host: the memory itself, or a mirror of the device's.
  virtual char* at(const Range& range) const = 0;
  /// After writing at(range), and before reading it.
  virtual void flush(const Range&) {}
  virtual void fetch(const Range&) {}
  virtual void check_stalled() const = 0;
  /// What a stream has run since clear_trace.
  virtual const std::vector<Event>& trace(int stream) const = 0;
  virtual void clear_trace() = 0;
  virtual DeviceMemory device_memory() const { return {}; }
  /// With --check-nan, of the last iteration, where NaN does not end it at once.
  virtual Oddity first_nan() const { return {}; }
  /// With --check-nan, of the last iteration.
  virtual Oddity first_infinity() const { return {}; }
  /// What came from peers through shared memory so far.
  virtual int64_t received_bytes() const { return 0; }
  /// The barrier of all ranks.
  void barrier() const;
  /// The same, however long rank 0 has nothing to do; unless its process is stopped for as long as a wait may take.
  void await_others() const;
  /// A stream has come to the end of the iteration: it waits for the others of this rank.
  void end_walk(int stream) const;
  /// A wrong input that was noticed while the program runs: what it reads and writes is clamped, and so it may go on
  /// where the options say so. Of several complaints the first stays.
  void complain(const std::string& what) const;
  static constexpr size_t kComplaintBytes = 512;

  /// The next invocations run this variant of the executable.
  void select(size_t variant);

  const Executable& executable;  // as requests see it, whatever its variants
  const Program& widest;         // with the memory, streams and signals that each of its variants has room in
  World& world;
  const int rank;
  const char* const image;
  const std::string_view manifest;
  const RankOptions options;
  uint32_t epoch = 0;                // iterations started: the value of a signalled flag
  uint32_t invocation = 0;           // counts as a user sees it: warm-up does not
  Portion portion = Portion::Whole;  // of the next iterations
  std::string odd_input;             // with --check-nan, an input of this iteration that is not finite
  bool evaluates = false;            // of a training: the next iterations only compute figures, and change no state
  size_t variant_number = 0;
  const Executable* variant;     // that runs; where there are no variants, `executable`
  Program program;               // of it
  std::vector<int64_t> lengths;  // of this invocation, in the order of the variant's lengths
  FileSums file_sums;

  /// Ends with exit 124: which step waited for what, and where every rank is.
  [[noreturn]] void time_out(const Step* step, const std::string& awaited) const;
  /// This rank is to stop in this step, for tests: others time out first.
  [[noreturn]] void stall_in(const Step& step) const;
  /// The step to stall in is none of these.
  [[noreturn]] void no_such_step(const std::set<std::string>& names) const;

 private:
  mutable std::mutex complaint_mutex_;  // streams may complain at the same time
};

/// What one process needs of its target, shared by the ranks in it.
struct Target {
  virtual ~Target() = default;
  virtual std::unique_ptr<RankBase> make_rank(const Program& program, World& world, int rank, const char* image,
                                              std::string_view manifest, const RankOptions& options) = 0;
};

// Each target's library defines these.

/// False where windows lie on devices: the segment that ranks share then has none.
extern const bool kWindowsInWorld;
/// Notes that a rank may leave for others, in that segment.
extern const int kNotesOfRank;
/// Throws (environment) where the machine lacks what `ranks_here` ranks of this process need. `ranks_here` 0: the ranks
/// will be processes of their own.
std::unique_ptr<Target> open_target(const Executable& executable, int ranks_here);

}  // namespace weft
