// The runtime surface of host programs: one process per rank, one thread per stream, peers in shared memory.
#pragma once
#include <type_traits>

#include "weft/program.h"
#include "weft/team.h"

namespace weft {

struct RankState;  // what the streams of one rank share
struct Walk;       // one stream's position in the program

class Rank;

/// The windows of the ranks of one group, seen from a kernel. Passed by value.
struct Peers {
  Rank* owner;
  Group group;
  int index, size;  // my index in the group, ranks in it

  template <class T>
  T* at(int peer, Window<T> buffer) const;
  /// Waits until every rank of the signal's group has signalled element i in this iteration. On the stream's thread
  /// only.
  void wait(const Signal& signal, int i = 0) const;
  /// Element i is done: from any thread.
  void signal(const Signal& signal, int i = 0) const;
  /// All ranks of the group have come here, and what they wrote before is visible. On the stream's thread only.
  void barrier() const;
  /// `count` elements came to this rank since the barrier, read from peers or written by them: takes the time of the
  /// run's --link, if there is one. On the stream's thread only.
  template <class T>
  void received(int64_t count) const;
};

/// One rank as one of its streams sees it: every stream's thread walks `run` with a Rank of its own.
class Rank {
 public:
  const int rank;    // in the world
  const int stream;  // the stream whose thread this is

  Rank(RankState& state, int stream);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  template <class T>
  T* operator[](Own<T> b) const {
    return reinterpret_cast<T*>(own_ + b.offset);
  }
  template <class T>
  T* operator[](Window<T> b) const {
    return reinterpret_cast<T*>(window(rank) + b.offset);
  }
  template <class T>
  const T* operator[](Weight<T> w) const {
    return reinterpret_cast<const T*>(image_ + w.offset);
  }
  /// The window of another rank of the world.
  char* window(int of_rank) const { return windows_ + of_rank * window_stride_; }

  int index(const Group& group) const { return group.index(rank); }
  int coordinate(const Axis& axis) const { return axis.coordinate(rank); }
  /// 0 for the first invocation (warm-up included); the last word of a random number's counter.
  uint32_t invocation() const;
  /// The threads of this stream: all --threads of the rank for a parallel stream, else only the calling thread.
  Team& team() const { return *team_; }

  /// Runs `body` if this is the step's stream. A body may loop and hold further steps of the same stream. What stands
  /// outside steps runs on every stream's thread: so all streams wait there for a predicate or trip count.
  template <class Body>
  void step(const Step& step, Body&& body) {
    this->step(step, 0, static_cast<Body&&>(body));
  }
  template <class Body>
  void step(const Step& step, int64_t index, Body&& body) {
    if (step.stream != stream) return;
    enter(step, index);
    body();
    leave();
  }
  /// Element i of the signal is done in this iteration. From any thread.
  void signal(const Signal& signal, int i = 0);
  /// Waits until element i is signalled by every rank of the signal's group.
  void wait(const Signal& signal, int i = 0);
  /// All ranks of the group have come here on this stream.
  void barrier(const Group& group);
  /// `bytes` came from peers since the last barrier: see Peers::received.
  void received(int64_t bytes);
  Peers peers(const Group& group) { return {this, group, group.index(rank), group.size()}; }
  /// A run-time length exceeds its bound: ends the program with exit 1, naming the value.
  void check_count(const char* value, const int64_t* count, int64_t bound) const;

  template <class T>
  void copy(T* to, const T* from, int64_t count) const {
    copy_bytes(to, from, count * int64_t{sizeof(T)});
  }
  /// total = op(total, part); with `first`, total = part.
  template <class T>
  void accumulate(ReduceOp op, T* total, const T* part, int64_t count, bool first) const {
    reduce_into(op, dtype_of<T>(), total, part, count, first);
  }
  /// This rank's slice (src_by_me, by_me) of a tensor that it holds whole.
  template <class T>
  void take_slice(const Group& g, const T* from, T* to, const Exchange& e) const {
    take(g, element_bytes(dtype_of<T>()), from, to, e);
  }
  /// One element: predicates and trip counts.
  template <class T>
  T value(const T* at) const {
    return *at;
  }
  template <class T>
  void set(T* at, std::type_identity_t<T> value) const {
    *at = value;
  }

  // All ranks of the group call the same collective with the same arguments on the stream of the same number. Sources
  // are windows and must be complete on the calling stream; on return the destination is complete and every source may
  // be overwritten. A destination may not overlap a source unless that is said. Reductions are done in the order of the
  // group, in float for half and bfloat16, and give the same bits on all ranks.

  /// dst = reduction over the peers' src, by an exchange whose src_by_me, dst_by_peer and by_peer are unused.
  template <class T>
  void all_reduce(const Group& g, ReduceOp op, Window<T> src, T* dst, const Exchange& box) {
    reduce_all(g, op, dtype_of<T>(), src.offset, dst, box);
  }
  template <class T>
  void all_reduce(const Group& g, ReduceOp op, Window<T> src, T* dst, int64_t count) {
    all_reduce(g, op, src, dst, Exchange{.dims = {{count, 1, 1}}});
  }
  /// The same into a window, which may be src itself: large ones are reduced part by part, and the parts are pulled.
  template <class T>
  void all_reduce(const Group& g, ReduceOp op, Window<T> src, Window<T> dst, const Exchange& box) {
    reduce_split(g, op, dtype_of<T>(), src.offset, dst.offset, box);
  }
  template <class T>
  void all_reduce(const Group& g, ReduceOp op, Window<T> src, Window<T> dst, int64_t count) {
    all_reduce(g, op, src, dst, Exchange{.dims = {{count, 1, 1}}});
  }
  /// dst = reduction over the peers of this rank's slice (src_by_me, by_me) of src.
  template <class T>
  void reduce_scatter(const Group& g, ReduceOp op, Window<T> src, T* dst, const Exchange& e) {
    reduce_all(g, op, dtype_of<T>(), src.offset, dst, e);
  }
  /// Every peer's src goes to its own slice (dst_by_peer, by_peer) of dst.
  template <class T>
  void all_gather(const Group& g, Window<T> src, T* dst, const Exchange& e) {
    pull(g, element_bytes(dtype_of<T>()), src.offset, dst, e);
  }
  /// This rank's slice of every peer's src goes to the peer's slice of dst.
  template <class T>
  void all_to_all(const Group& g, Window<T> src, T* dst, const Exchange& e) {
    pull(g, element_bytes(dtype_of<T>()), src.offset, dst, e);
  }
  /// dst = src of the peer with index `root`. dst may be the root's src.
  template <class T>
  void broadcast(const Group& g, int root, Window<T> src, T* dst, int64_t count) {
    pull_root(g, root, element_bytes(dtype_of<T>()), src.offset, dst, Exchange{.dims = {{count, 1, 1}}});
  }
  /// dst of the peer with index `root` = reduction over the peers' src; other ranks' dst stays as it is.
  template <class T>
  void reduce(const Group& g, int root, ReduceOp op, Window<T> src, T* dst, int64_t count) {
    reduce_root(g, root, op, dtype_of<T>(), src.offset, dst, Exchange{.dims = {{count, 1, 1}}});
  }

  /// The rows of this rank are ready in src; returns when their receivers have pulled them. Ranks without rows return
  /// at once.
  template <class T>
  void send(const Transfer& t, int micro_batch, Window<T> src) {
    send_rows(t, micro_batch, element_bytes(dtype_of<T>()), src.offset);
  }
  /// Pulls this rank's rows, in table order, from the senders' src (the same window part as in their send) to dst.
  template <class T>
  void recv(const Transfer& t, int micro_batch, Window<T> src, T* dst) {
    recv_rows(t, micro_batch, element_bytes(dtype_of<T>()), src.offset, dst);
  }

 private:
  void enter(const Step& step, int64_t index);
  void leave();
  bool shares_memory_with(int peer) const;
  void wait_for_flag(int of_rank, int slot, const char* what, int i);
  void reduce_all(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e);
  void reduce_split(const Group& g, ReduceOp op, DType dtype, int64_t src, int64_t dst, const Exchange& e);
  void reduce_root(const Group& g, int root, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e);
  void reduce_here(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e);
  void reduce_small(const Group& g, ReduceOp op, DType dtype, int64_t src, int64_t dst, const Exchange& e);
  void pull(const Group& g, int64_t element, int64_t src, void* dst, const Exchange& e);
  void pull_from(const Group& g, int peer, int64_t element, int64_t src, void* dst, const Exchange& e);
  void pull_root(const Group& g, int root, int64_t element, int64_t src, void* dst, const Exchange& e);
  void copy_bytes(void* to, const void* from, int64_t bytes) const;
  void reduce_into(ReduceOp op, DType dtype, void* total, const void* part, int64_t count, bool first) const;
  void take(const Group& g, int64_t element, const void* from, void* to, const Exchange& e) const;
  void send_rows(const Transfer& t, int micro_batch, int64_t element, int64_t src);
  void recv_rows(const Transfer& t, int micro_batch, int64_t element, int64_t src, void* dst);

  RankState& state_;
  Walk* walk_;
  Team* team_;
  char* own_;
  const char* image_;
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
