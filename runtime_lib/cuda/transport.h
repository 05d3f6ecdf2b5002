// How the windows of other ranks are reached, and the plain collectives: one provider where ranks share a process (or
// there is one rank), one over NCCL where each rank is a process.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "geometry.h"
#include "toolkit.h"
#include "weft/cuda.h"

namespace weft {

struct CudaState;

/// All collectives are issued to the stream of the current step. `src` is an offset in the windows, and is the same on
/// all ranks.
struct Transport {
  virtual ~Transport() = default;
  /// Memory that peers reach.
  virtual char* make_window(int64_t bytes) = 0;
  /// All ranks have made theirs.
  virtual void open_windows() = 0;
  /// The address of a rank's window here. Throws (environment) where it is out of reach.
  virtual char* window_of(int rank) = 0;
  /// Throws what went wrong meanwhile.
  virtual void poll() {}
  /// Ends what waits for other ranks on the device.
  virtual void abandon() {}

  /// Nothing is left to be made at the first collective of a group.
  virtual void prepare(const Group&) {}
  /// A reduce_all of this box on this stream takes no more memory afterwards.
  virtual void prepare_sum(DType, const Exchange&) {}
  virtual void barrier(const Group& g) = 0;
  virtual void reduce_all(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e) = 0;
  virtual void reduce_slices(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e) = 0;
  virtual void gather(const Group& g, DType dtype, int64_t src, void* dst, const Exchange& e) = 0;
  virtual void exchange(const Group& g, DType dtype, int64_t src, void* dst, const Exchange& e) = 0;
  virtual void broadcast(const Group& g, int root, DType dtype, int64_t src, void* dst, int64_t count) = 0;
  virtual void reduce(const Group& g, int root, ReduceOp op, DType dtype, int64_t src, void* dst, int64_t count) = 0;
  virtual void send(const Transfer& t, int micro_batch, DType dtype, int64_t src) = 0;
  virtual void recv(const Transfer& t, int micro_batch, DType dtype, int64_t src, void* dst) = 0;
};

/// What ranks in one process share: their windows, and the events that their streams wait for.
struct Process {
  enum class When { Ready, Done };
  /// An event of a rank, by stream, participants and occasion.
  using EventKey = std::tuple<int, int, std::vector<int>, When>;

  std::mutex mutex;
  std::vector<char*> windows;  // by rank
  std::map<EventKey, cudaEvent_t> events;

  explicit Process(int ranks) : windows(size_t(ranks)) {}
  ~Process();
  cudaEvent_t event(const EventKey& key);
};

std::unique_ptr<Transport> peer_transport(CudaState& state, Process& process);
std::unique_ptr<Transport> nccl_transport(CudaState& state);

}  // namespace weft
