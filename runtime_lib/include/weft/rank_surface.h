// The interface of a rank that emitted code calls, the same for every target: memory, steps, signals, collectives and
// transfers, all typed. A target's header (weft/host.h, weft/cuda.h) derives its `Rank` from it and adds what only its
// kernels need. It implements the private functions at the end, which take bytes and data types.
//
// These are virtual: a step costs far more than the few calls that it makes, and the C++ compiler names those that a
// target lacks.
#pragma once
#include <type_traits>

#include "weft/program.h"

namespace weft {

/// Gets notified of the memory that a step is about to use, for --check-nan.
struct AccessWatch {
  virtual void touch(const void* at, int64_t count, DType dtype) = 0;

 protected:
  ~AccessWatch() = default;
};

class RankSurface {
 public:
  const int rank;  // in the world

  RankSurface(const RankSurface&) = delete;
  RankSurface& operator=(const RankSurface&) = delete;

  template <class T>
  T* operator[](Own<T> b) const {
    return watched(reinterpret_cast<T*>(own_ + b.offset), b.count);
  }
  template <class T>
  T* operator[](Window<T> b) const {
    return watched(reinterpret_cast<T*>(window_ + b.offset), b.count);
  }
  template <class T>
  const T* operator[](Weight<T> w) const {
    return reinterpret_cast<const T*>(image_ + w.offset);
  }

  int index(const Group& group) const { return group.index(rank); }
  int coordinate(const Axis& axis) const { return axis.coordinate(rank); }

  /// Whether this invocation is an evaluation: a training then runs only the steps that its figures depend on.
  virtual bool evaluates() const = 0;
  /// The following steps belong to this block, until the next one begins.
  void begin(const BlockRun& block) { block_ = block; }
  /// Runs `body` on the step's stream; `layer`, if given, is the step's layer. A body may loop and hold further steps
  /// of the same stream. Code outside of steps runs on all streams: each of them waits there for a predicate or trip
  /// count.
  template <class Body>
  void step(const Step& step, Body&& body) {
    this->step(step, 0, static_cast<Body&&>(body));
  }
  template <class Body>
  void step(int layer, Step step, Body&& body) {
    step.layer = layer;
    this->step(step, 0, static_cast<Body&&>(body));
  }
  template <class Body>
  void step(int layer, Step step, int64_t index, Body&& body) {
    step.layer = layer;
    this->step(step, index, static_cast<Body&&>(body));
  }
  template <class Body>
  void step(const Step& step, int64_t index, Body&& body) {
    using Called = std::remove_reference_t<Body>;
    run_step(step, index, {&body, [](const void* called) { (*static_cast<const Called*>(called))(); }});
  }
  /// Signals element i in this iteration once the stream reaches this point.
  virtual void signal(const Signal& signal, int i = 0) = 0;
  /// The stream waits until every rank of the signal's group has signalled element i.
  virtual void wait(const Signal& signal, int i = 0) = 0;
  /// The stream waits until all ranks of the group have reached this barrier on their streams of this number.
  virtual void barrier(const Group& group) = 0;

  template <class T>
  void copy(T* to, const T* from, int64_t count) {
    copy_bytes(to, from, count * int64_t{sizeof(T)});
  }
  /// total = op(total, part); with `first`, total = part.
  template <class T>
  void accumulate(ReduceOp op, T* total, const T* part, int64_t count, bool first) {
    reduce_into(op, dtype_of<T>(), total, part, count, first);
  }
  /// This rank's slice (src_by_me, by_me) of a tensor that it holds whole.
  template <class T>
  void take_slice(const Group& g, const T* from, T* to, const Exchange& e) {
    take(g, element_bytes(dtype_of<T>()), from, to, e);
  }
  /// Reads one element, such as a predicate or trip count. Waits until the stream has computed it.
  template <class T>
  T value(const T* at) {
    T out;
    read(&out, at, sizeof(T));
    return out;
  }
  template <class T>
  void set(T* at, std::type_identity_t<T> value) {
    write(at, &value, sizeof(T));
  }

  // All ranks of the group call the same collective with the same arguments on the stream of the same number. Sources
  // are windows and must be complete on that stream. After the call, on that stream, the destination is complete and
  // every source may be overwritten. A destination may overlap a source only where this is stated. Reductions are done
  // in float for half and bfloat16 and give the same bits on all ranks; the host adds in the order of the group.

  /// dst = reduction over the peers' src, by an exchange whose src_by_me, dst_by_peer and by_peer are unused.
  template <class T>
  void all_reduce(const Group& g, ReduceOp op, Window<T> src, T* dst, const Exchange& box) {
    reduce_all(g, op, dtype_of<T>(), src.offset, dst, box);
  }
  template <class T>
  void all_reduce(const Group& g, ReduceOp op, Window<T> src, T* dst, int64_t count) {
    all_reduce(g, op, src, dst, box_of(count));
  }
  /// The same into a window, which may be src itself.
  template <class T>
  void all_reduce(const Group& g, ReduceOp op, Window<T> src, Window<T> dst, const Exchange& box) {
    static_cast<void>((*this)[dst]);
    reduce_all_in_windows(g, op, dtype_of<T>(), src.offset, dst.offset, box);
  }
  template <class T>
  void all_reduce(const Group& g, ReduceOp op, Window<T> src, Window<T> dst, int64_t count) {
    all_reduce(g, op, src, dst, box_of(count));
  }
  /// dst = reduction over the peers of this rank's slice (src_by_me, by_me) of src.
  template <class T>
  void reduce_scatter(const Group& g, ReduceOp op, Window<T> src, T* dst, const Exchange& e) {
    reduce_slices(g, op, dtype_of<T>(), src.offset, dst, e);
  }
  /// Every peer's src goes to its own slice (dst_by_peer, by_peer) of dst.
  template <class T>
  void all_gather(const Group& g, Window<T> src, T* dst, const Exchange& e) {
    gather(g, dtype_of<T>(), src.offset, dst, e);
  }
  /// This rank's slice of every peer's src goes to the peer's slice of dst.
  template <class T>
  void all_to_all(const Group& g, Window<T> src, T* dst, const Exchange& e) {
    exchange(g, dtype_of<T>(), src.offset, dst, e);
  }
  /// dst = src of the peer with index `root`. dst may be the root's src.
  template <class T>
  void broadcast(const Group& g, int root, Window<T> src, T* dst, int64_t count) {
    broadcast_from(g, root, dtype_of<T>(), src.offset, dst, count);
  }
  /// dst of the peer with index `root` = reduction over the peers' src; other ranks' dst stays as it is.
  template <class T>
  void reduce(const Group& g, int root, ReduceOp op, Window<T> src, T* dst, int64_t count) {
    reduce_root(g, root, op, dtype_of<T>(), src.offset, dst, count);
  }

  /// Sends this rank's rows, which are ready in src. After the call the receivers have them, and src may be
  /// overwritten. Ranks without rows do nothing.
  template <class T>
  void send(const Transfer& t, int micro_batch, Window<T> src) {
    send_rows(t, micro_batch, dtype_of<T>(), src.offset);
  }
  /// Brings this rank's rows, in table order, from the senders' src (the same window part as in their send) to dst.
  template <class T>
  void recv(const Transfer& t, int micro_batch, Window<T> src, T* dst) {
    recv_rows(t, micro_batch, dtype_of<T>(), src.offset, dst);
  }

 protected:
  /// Takes the addresses, as its kernels see them, of the rank's own memory, its window and its image of the weights.
  RankSurface(int rank_in_world, char* own, char* window, const char* image)
      : rank(rank_in_world), own_(own), window_(window), image_(image) {}
  ~RankSurface() = default;

  char *const own_, *const window_;
  const char* const image_;
  AccessWatch* watch_ = nullptr;  // set if the rank's steps are checked
  BlockRun block_ = {};           // the block that runs

 private:
  template <class T>
  T* watched(T* at, int64_t count) const {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, half> ||
                  std::is_same_v<T, bfloat16>)
      if (watch_ != nullptr) watch_->touch(at, count, dtype_of<T>());
    return at;
  }
  static constexpr Exchange box_of(int64_t count) { return {.dims = {{count, 1, 1}}}; }

  /// The body of a step without its type, so that the code around it is compiled once, not for each of hundreds of
  /// steps.
  struct StepBody {
    const void* body;
    void (*call)(const void* body);
  };
  [[gnu::noinline]] void run_step(const Step& step, int64_t index, StepBody body) {
    if (!enter(step, index)) return;
    try {
      body.call(body.body);
    } catch (...) {
      refuse_request(step);
    }
    leave();
  }

  /// False if the step belongs to the thread of another stream. Otherwise leave() ends it.
  virtual bool enter(const Step& step, int64_t index) = 0;
  virtual void leave() = 0;
  /// Handles an exception of a step's body. BadString fails the request, whose results are never shown. Any other
  /// exception is rethrown.
  virtual void refuse_request(const Step& step) = 0;
  virtual void copy_bytes(void* to, const void* from, int64_t bytes) = 0;
  virtual void reduce_into(ReduceOp op, DType dtype, void* total, const void* part, int64_t count, bool first) = 0;
  virtual void take(const Group& g, int64_t element, const void* from, void* to, const Exchange& e) = 0;
  virtual void read(void* to, const void* at, size_t bytes) = 0;
  virtual void write(void* at, const void* from, size_t bytes) = 0;

  // Sources, and destinations of integer type, are offsets in windows.
  virtual void reduce_all(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e) = 0;
  virtual void reduce_all_in_windows(const Group& g, ReduceOp op, DType dtype, int64_t src, int64_t dst,
                                     const Exchange& e) = 0;
  virtual void reduce_slices(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e) = 0;
  virtual void gather(const Group& g, DType dtype, int64_t src, void* dst, const Exchange& e) = 0;
  virtual void exchange(const Group& g, DType dtype, int64_t src, void* dst, const Exchange& e) = 0;
  virtual void broadcast_from(const Group& g, int root, DType dtype, int64_t src, void* dst, int64_t count) = 0;
  virtual void reduce_root(const Group& g, int root, ReduceOp op, DType dtype, int64_t src, void* dst,
                           int64_t count) = 0;
  virtual void send_rows(const Transfer& t, int micro_batch, DType dtype, int64_t src) = 0;
  virtual void recv_rows(const Transfer& t, int micro_batch, DType dtype, int64_t src, void* dst) = 0;
};

}  // namespace weft
