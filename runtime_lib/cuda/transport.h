// Access to the windows of other ranks, and the plain collectives. One implementation is for ranks that share a process
// (or a single rank), the other, over NCCL, for ranks that are processes.
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
  /// Allocates memory that peers can access.
  virtual char* make_window(int64_t bytes) = 0;
  /// Called when all ranks have made theirs.
  virtual void open_windows() = 0;
  /// The address of a rank's window here. Throws (environment) if it cannot be reached.
  virtual char* window_of(int rank) = 0;
  /// Throws errors that occurred meanwhile.
  virtual void poll() {}
  /// Ends operations on the device that wait for other ranks.
  virtual void abandon() {}

  /// Sets up everything for collectives of a group, so that the first one need not.
  virtual void prepare(const Group&) {}
  /// Allocates the memory for a reduce_all of this box on this stream.
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

/// Data that ranks in one process share: their windows, and the events that their streams wait for.
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
