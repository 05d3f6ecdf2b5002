// The runtime surface of host programs: one process per rank, one thread per stream, peers in shared memory.
#pragma once
#include "weft/index_range.h"
#include "weft/kept_panels.h"
#include "weft/rank_surface.h"
#include "weft/scratch.h"
#include "weft/team.h"

namespace weft {

struct RankState;  // shared by the streams of one rank
struct Walk;       // one stream's position in the program

class Rank;

/// The windows of the ranks of one group, seen from a kernel. Passed by value.
struct Peers {
  Rank* owner;
  Group group;
  int index, size;  // my index in the group, ranks in it

  template <class T>
  T* at(int peer, Window<T> buffer) const;
  /// Waits until every rank of the signal's group has signalled element i in this iteration. Only the stream's thread
  /// may call it.
  void wait(const Signal& signal, int i = 0) const;
  /// Signals element i. Any thread may call it.
  void signal(const Signal& signal, int i = 0) const;
  /// Waits until all ranks of the group have reached the barrier; their earlier writes are then visible. Only the
  /// stream's thread may call it.
  void barrier() const;
  /// Reports `count` elements that this rank read from peers, or peers wrote, since the barrier: it takes the time of
  /// the run's --link, if there is one. Only the stream's thread may call it.
  template <class T>
  void received(int64_t count) const;
};

/// The indices that a node of the model looks up, for its kernel to check. Passed by value.
struct IndexCheck {
  const RankState* rank;
  const char* node;
  int layer = kNoLayer;  // as in Step

  /// An index outside of the dimension fails the request. Negative indices count from the end. Any thread may call it.
  void demand(const IndexRange& range, int64_t extent) const { demand_within(range, -extent, extent); }
  /// The same, but negative indices are outside.
  void demand_from_front(const IndexRange& range, int64_t extent) const { demand_within(range, 0, extent); }

 private:
  void demand_within(const IndexRange& range, int64_t first, int64_t extent) const {
    if (!range.is_within(first, extent)) refuse(range.outside(extent), extent);
  }
  void refuse(int64_t index, int64_t extent) const;
};

/// One rank as one of its streams sees it: every stream's thread walks `run` with a Rank of its own.
class Rank final : public RankSurface {
 public:
  const int stream;  // the stream whose thread this is

  Rank(RankState& state, int stream);
  ~Rank();

  /// The window of another rank of the world.
  char* window(int of_rank) const { return windows_ + of_rank * window_stride_; }
  /// 0 for the first invocation (warm-up included); the last word of a random number's counter.
  uint32_t invocation() const;
  /// The threads of this stream: all --threads threads of the rank for a parallel stream, else only the calling thread.
  Team& team() const { return *team_; }
  /// `node` names in messages the node whose index is wrong, such as "node 'look' (Gather)".
  IndexCheck indices_of(const char* node, int layer = kNoLayer) const { return {&state_, node, layer}; }

  bool evaluates() const override;
  void signal(const Signal& signal, int i = 0) override;
  void wait(const Signal& signal, int i = 0) override;
  void barrier(const Group& group) override;
  /// Reports `bytes` from peers since the last barrier: see Peers::received.
  void received(int64_t bytes);
  Peers peers(const Group& group) { return {this, group, group.index(rank), group.size()}; }

 private:
  bool enter(const Step& step, int64_t index) override;
  void leave() override;
  void refuse_request(const Step& step) override;
  void copy_bytes(void* to, const void* from, int64_t bytes) override;
  void reduce_into(ReduceOp op, DType dtype, void* total, const void* part, int64_t count, bool first) override;
  void take(const Group& g, int64_t element, const void* from, void* to, const Exchange& e) override;
  void read(void* to, const void* at, size_t bytes) override;
  void write(void* at, const void* from, size_t bytes) override;
  void reduce_all(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e) override;
  void reduce_all_in_windows(const Group& g, ReduceOp op, DType dtype, int64_t src, int64_t dst,
                             const Exchange& e) override;
  void reduce_slices(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e) override;
  void gather(const Group& g, DType dtype, int64_t src, void* dst, const Exchange& e) override;
  void exchange(const Group& g, DType dtype, int64_t src, void* dst, const Exchange& e) override;
  void broadcast_from(const Group& g, int root, DType dtype, int64_t src, void* dst, int64_t count) override;
  void reduce_root(const Group& g, int root, ReduceOp op, DType dtype, int64_t src, void* dst, int64_t count) override;
  void send_rows(const Transfer& t, int micro_batch, DType dtype, int64_t src) override;
  void recv_rows(const Transfer& t, int micro_batch, DType dtype, int64_t src, void* dst) override;

  bool shares_memory_with(int peer) const;
  void wait_for_flag(int of_rank, int slot, const char* what, int i);
  void reduce_here(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e);
  void reduce_small(const Group& g, ReduceOp op, DType dtype, int64_t src, int64_t dst, const Exchange& e);
  void pull(const Group& g, int64_t element, int64_t src, void* dst, const Exchange& e);
  void pull_from(const Group& g, int peer, int64_t element, int64_t src, void* dst, const Exchange& e);

  RankState& state_;
  Walk* walk_;
  Team* team_;
  char* windows_;
  int64_t window_stride_;
};

template <class T>
T* Peers::at(int peer, Window<T> b) const {
  return reinterpret_cast<T*>(owner->window(group.peer(owner->rank, peer)) + b.offset);
}
inline void Peers::wait(const Signal& signal, int i) const { owner->wait(signal, i); }
inline void Peers::signal(const Signal& signal, int i) const { owner->signal(signal, i); }
inline void Peers::barrier() const { owner->barrier(group); }
template <class T>
void Peers::received(int64_t count) const {
  owner->received(count * element_bytes(dtype_of<T>()));
}

}  // namespace weft
