// The target-neutral interface of a rank, for main, tensors and reports, and the target's part of a process.
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
  int64_t waited_ns = 0;  // the part spent waiting for others; on a device, `begin_ns` is after the waits
  uint32_t invocation = 0;
  bool communicates = false;
  BlockRun block = {};
};

/// The steps that an invocation runs: all, only the parallel stream's, or only the other streams'. Nothing waits for
/// steps that do not run: such an invocation only measures time.
enum class Portion : uint8_t { Whole, Computation, Communication };

/// A rank's options from the command line.
struct RankOptions {
  int threads = 1;
  std::vector<int> cores = {};  // a core for each thread; empty: the system chooses
  double timeout = 60;
  bool poison = false, trace = false;
  bool check_nan = false;     // check the results of each step
  bool check_files = false;   // compare also large files with those of other ranks
  bool graph = true;          // cuda: replay a captured graph
  bool in_process = false;    // ranks are threads: a failure must not end the process
  std::string stall = {};     // the step in which this rank stops, for tests
  char* complaint = nullptr;  // buffer for a wrong input that the program detects; null: it ends the run
  LinkSpeed link = {};
};

/// A byte range of a rank's own memory or window.
struct Range {
  bool in_window;
  int64_t offset, bytes;
};

/// Bytes of a rank's memory on its device; all 0 without a device.
struct DeviceMemory {
  int64_t own = 0, window = 0, weights = 0, scratch = 0;
  int64_t total() const { return own + window + weights + scratch; }
};

/// A number that is not finite: when it was seen (0: never), and what has computed it.
struct Oddity {
  int64_t ns = 0;
  std::string text = {};
};

/// Ends all ranks. Only the first of several failures is printed.
void report_failure(const char* name, const World& world, int rank, const Failure& failure);

struct RankBase {
  RankBase(const Executable& executable, const Program& program, World& world, int rank, const char* image,
           std::string_view manifest, const RankOptions& options);
  virtual ~RankBase() = default;
  RankBase(const RankBase&) = delete;
  RankBase& operator=(const RankBase&) = delete;

  /// Does the preparations of iterate() in advance, so that they are not part of measured time. All ranks call it, or
  /// none.
  virtual void make_ready() {}
  /// Runs one invocation on all streams, and enters the barrier of all ranks. Throws what any stream threw.
  virtual void iterate() = 0;
  /// Fills own memory and window with NaN, except the kept ranges.
  virtual void poison(const std::vector<Range>& keep) = 0;
  /// The address of a range for the host: the memory itself, or a mirror of the device's.
  virtual char* at(const Range& range) const = 0;
  /// Called after writing at(range), and before reading it.
  virtual void flush(const Range&) {}
  virtual void fetch(const Range&) {}
  virtual void check_stalled() const = 0;
  /// The steps that a stream has run since clear_trace.
  virtual const std::vector<Event>& trace(int stream) const = 0;
  virtual void clear_trace() = 0;
  virtual DeviceMemory device_memory() const { return {}; }
  /// With --check-nan, the last iteration's first NaN, if NaN does not end the iteration at once.
  virtual Oddity first_nan() const { return {}; }
  /// With --check-nan, the last iteration's first infinity.
  virtual Oddity first_infinity() const { return {}; }
  /// Bytes received from peers through shared memory so far.
  virtual int64_t received_bytes() const { return 0; }
  /// The barrier of all ranks.
  void barrier() const;
  /// The same, and all ranks have read the same files so far. No rank reads another one before they are compared.
  void meet_with_files();
  /// The same, but it waits for rank 0 for any time while it is idle. It fails if rank 0's process is stopped for the
  /// time-out.
  void await_others() const;
  /// Called at the end of a stream's iteration, when it waits for the other streams of this rank.
  void end_walk(int stream) const;
  /// Reports a wrong input that was detected while the program runs. Its accesses are clamped, so that it can go on if
  /// the options allow that. Only the first complaint is kept.
  void complain(const std::string& what) const;
  static constexpr size_t kComplaintBytes = 512;

  /// The next invocations run this variant of the executable.
  void select(size_t variant);

  const Executable& executable;  // the whole, as requests see it
  const Program& widest;         // with enough memory, streams and signals for each variant
  World& world;
  const int rank;
  const char* const image;
  const std::string_view manifest;
  const RankOptions options;
  uint32_t epoch = 0;                // iterations started: the value of a signalled flag
  uint32_t invocation = 0;           // counts as a user sees it: warm-up does not
  Portion portion = Portion::Whole;  // for the next iterations
  std::string odd_input;             // with --check-nan, an input of this iteration that is not finite
  bool evaluates = false;            // in a training: the next iterations only compute figures, and change no state
  size_t variant_number = 0;
  const Executable* variant;     // the one that runs; without variants, `executable`
  Program program;               // the variant's
  std::vector<int64_t> lengths;  // of this invocation, in the order of the variant's lengths
  FileSums file_sums;

  /// Ends with exit 124. The message says which step waited for what, and the position of every rank.
  [[noreturn]] void time_out(const Step* step, const std::string& awaited) const;
  /// Stops this rank in this step, for tests: others time out first.
  [[noreturn]] void stall_in(const Step& step) const;
  /// Fails because the step of --stall is not among these.
  [[noreturn]] void no_such_step(const std::set<std::string>& names) const;

 private:
  mutable std::mutex complaint_mutex_;  // streams may complain at the same time
};

/// The target's part of a process, shared by the ranks in it.
struct Target {
  virtual ~Target() = default;
  virtual std::unique_ptr<RankBase> make_rank(const Program& program, World& world, int rank, const char* image,
                                              std::string_view manifest, const RankOptions& options) = 0;
};

// Each target's library defines these.

/// False if windows lie on devices: the segment that ranks share then has no windows.
extern const bool kWindowsInWorld;
/// The number of notes that a rank may leave for others in that segment.
extern const int kNotesOfRank;
/// Throws (environment) if the machine lacks something that `ranks_here` ranks of this process need. `ranks_here` 0:
/// the ranks will be processes of their own.
std::unique_ptr<Target> open_target(const Executable& executable, int ranks_here);

}  // namespace weft
