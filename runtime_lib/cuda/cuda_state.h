// The implementation of a rank of weft/cuda.h: its memory on the device, its streams, and the thread that issues steps.
#pragma once
#include <map>
#include <set>

#include "mapping.h"
#include "memory.h"
#include "rank_base.h"
#include "toolkit.h"
#include "transport.h"
#include "wait.h"
#include "weft/cuda.h"

namespace weft {

/// A step that has been issued, with the times of its begin and end on the device if they are needed.
struct IssuedStep {
  Step step;
  int64_t index;
  BlockRun block;
  cudaEvent_t begin = nullptr, end = nullptr;
  bool communicates = false;
};

/// Thrown through a walk that cannot be captured: it reads a value from the device.
struct NotCapturable {};

struct IterationWords;
class FiniteWatch;

/// The GPU of a rank, and how many ranks of its process share it.
struct DevicePlace {
  int device, sharers;
};

struct CudaState;

/// The handles and chosen algorithms that contraction.cpp keeps for a rank.
struct Contractions {
  virtual ~Contractions() = default;
  /// Loads the library's kernels for all products that were encountered and are not loaded yet.
  virtual void load(CudaState& state) = 0;
};
constexpr int64_t kContractionScratch = 32 << 20;  // bytes: what NVIDIA recommends for Hopper
/// Starts the library for the current device. It is defined beside Rank::contract, so only programs that contract have
/// it.
[[gnu::weak]] std::unique_ptr<Contractions> make_contractions();

struct CudaState final : RankBase {
  CudaState(const Executable& executable, const Program& program, World& world, int rank, const char* image,
            std::string_view manifest, const RankOptions& options, const DevicePlace& place, Process& process);
  ~CudaState() override;

  void make_ready() override;
  void iterate() override;
  void poison(const std::vector<Range>& keep) override;
  char* at(const Range& range) const override;
  void flush(const Range& range) override;
  void fetch(const Range& range) override;
  void check_stalled() const override;
  const std::vector<Event>& trace(int stream) const override { return traces_[size_t(stream)]; }
  void clear_trace() override;
  DeviceMemory device_memory() const override;
  Oddity first_nan() const override;
  Oddity first_infinity() const override;

  /// The number of the current step's stream. Throws outside of steps.
  int stream_number() const;
  cudaStream_t stream() const { return streams[size_t(stream_number())]; }
  const Step* current_step() const { return open_.empty() ? nullptr : &walks().steps[size_t(open_.back())].step; }
  /// The step is the current one, until leave_step().
  void enter_step(const Step& step, int64_t index, const BlockRun& block);
  void leave_step() { open_.pop_back(); }
  /// The same for a step that is issued.
  void enter(const Step& step, int64_t index, const BlockRun& block);
  void leave();
  /// Whether the current walk issues nothing, and only collects what the program is going to need.
  bool is_rehearsing() const { return is_rehearsing_; }
  /// An event between streams of this rank, by slot.
  void record_signal(int slot);
  void wait_for_signal(int slot);
  Peers peers(const std::vector<int>& members);
  void prepare(const Group& group) { transport_->prepare(group); }
  /// Device memory of the current stream, valid until its next user.
  char* scratch(int64_t bytes);
  char* scratch_of(int stream, int64_t bytes);
  /// Device memory that the caller keeps for the lifetime of the rank.
  DeviceBytes kept_bytes(int64_t bytes, const char* what);
  /// Copies from the device to the host, now.
  void read(void* to, const void* at, size_t bytes);
  /// A value that the host reads or writes is not part of a graph.
  void leave_capture();
  /// The number by which a fault tells a node that looks up indices.
  int number_of_checked(const char* node, int layer);
  /// Waits for a stream. Throws errors that occur meanwhile.
  void wait_for(cudaStream_t stream);
  /// Records whether the host, and all streams with it, waits for other ranks.
  void set_awaited(Awaited awaited) const;
  [[noreturn]] void time_out_here(const std::string& awaited) const { time_out(current_step(), awaited); }
  /// While NCCL waits for others, host memory says in which step; 0 afterwards.
  void mark_waiting(bool waits);

  const int device, sharers;
  char *own = nullptr, *window = nullptr;
  const char* weights = nullptr;
  IterationWords* words = nullptr;
  std::vector<cudaStream_t> streams;
  std::vector<std::vector<uint32_t>> ticks;  // [stream][rank]: barriers on the host
  Pinned<Fault> fault;
  std::unique_ptr<Contractions> contractions;
  std::unique_ptr<FiniteWatch> finite_watch;  // with --check-nan

 private:
  void start_library();
  void upload_weights();
  /// Walks the program without issuing anything, as far as that goes.
  void rehearse();
  void begin_walk();
  void walk();
  void run_iteration();
  void capture();
  bool may_capture();
  void fork(cudaStream_t from);
  void join(cudaStream_t into);
  void watch();
  void check_fault();
  void check_progress();
  void say_status() const;
  void abandon();
  void copy_now(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind);
  void collect_trace();

  /// The state of the walks of one variant of the executable.
  struct Walks {
    cudaGraphExec_t graph = nullptr;
    int count = 0;
    bool is_dynamic = false;  // its steps are issued each time
    bool is_rehearsed = false;
    std::vector<IssuedStep> steps;  // of the last one, by number
    std::vector<std::string> checked_names;
  };
  Walks& walks() { return walks_of_[variant_number]; }
  const Walks& walks() const { return walks_of_[variant_number]; }

  std::unique_ptr<Transport> transport_;
  int64_t flags_ = 0;  // offset of the inbox in every window
  int flag_slots_ = 0, signals_ = 0;
  /// Words in which a stream's kernels count: barriers of their blocks, then barriers by block and rank.
  static constexpr int kBlockWords = 2;
  int64_t counters_of_stream() const { return kBlockWords + int64_t{kMaxPeerBlocks} * world.shape.ranks; }
  DeviceBytes own_bytes_, weight_bytes_, word_bytes_;
  Mapping own_mirror_, window_mirror_;                 // memory of the host with the same layout
  std::vector<DeviceBytes> scratch_;                   // all ever allocated
  std::vector<std::pair<char*, int64_t>> scratch_of_;  // by stream: the largest
  int64_t scratch_total_ = 0;
  Pinned<uint32_t> progress_;                                 // by stream: 1 + the step that waits in a library, or 0
  Pinned<char> landing_;                                      // where read() gets its bytes
  std::vector<std::pair<uint32_t, Patience>> progress_seen_;  // by stream: the value, and for how long it may stay
  cudaEvent_t fork_ = nullptr, base_ = nullptr;
  int64_t base_ns_ = 0;
  std::vector<cudaEvent_t> joins_, signal_events_;  // by stream; by slot
  std::vector<uint32_t> signal_walks_;              // by slot: the walk that recorded it last
  std::vector<int> open_;                           // entered and not left
  std::vector<std::vector<Event>> traces_;          // by stream
  std::set<std::string> step_names_;
  std::vector<Walks> walks_of_;  // by variant
  uint32_t walks_ = 0;           // of all variants
  bool is_capturing_ = false, is_rehearsing_ = false, is_ready_ = false;

 public:
  Transport& transport() {
    note_exchange();
    return *transport_;
  }
  /// For --trace: the open step has waited until here; it communicates.
  void note_waited();
  void note_exchange();
};

}  // namespace weft
