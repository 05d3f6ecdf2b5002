// What emitted code calls on a rank, the same for every target: memory, steps, signals, collectives and transfers, all
// typed. A target's header (weft/host.h, weft/cuda.h) derives its `Rank` from this, adds what only its kernels need,
// and supplies the private functions at the end, which know bytes and data types only.
//
// They are virtual: a step calls one or a few of them and costs far more than the calls, and the compiler names those
// that a target lacks.
#pragma once
#include <type_traits>

#include "weft/program.h"

namespace weft {

/// Is told of the memory that a step is about to use: for --check-nan.
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

  /// Whether this walk is an evaluation: of a training's steps only what figures are computed from.
  virtual bool evaluates() const = 0;
  /// The steps behind it are of this block, until the next one begins.
  void begin(const BlockRun& block) { block_ = block; }
  /// Runs `body` on the step's stream, which is one of `layer` where that is given. A body may loop and hold further
  /// steps of the same stream. What stands outside steps concerns all streams: each of them waits there for a predicate
  /// or trip count.
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
  /// Element i of the signal is done in this iteration, once the stream has come here.
  virtual void signal(const Signal& signal, int i = 0) = 0;
  /// The stream waits until element i is signalled by every rank of the signal's group.
  virtual void wait(const Signal& signal, int i = 0) = 0;
  /// All ranks of the group have come here on this stream.
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
  /// One element: predicates and trip counts. Waits for what the stream has computed.
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
  // are windows and must be complete on that stream; behind the call on that stream the destination is complete and
  // every source may be overwritten. A destination may not overlap a source unless that is said. Reductions are done in
  // float for half and bfloat16 and give the same bits on all ranks; the host adds in the order of the group.

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

  /// The rows of this rank are ready in src, which may be overwritten behind the call: their receivers have them then.
  /// Ranks without rows do nothing.
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
  /// The rank's own memory, its window and its image of the weights, where its kernels reach them.
  RankSurface(int rank_in_world, char* own, char* window, const char* image)
      : rank(rank_in_world), own_(own), window_(window), image_(image) {}
  ~RankSurface() = default;

  char *const own_, *const window_;
  const char* const image_;
  AccessWatch* watch_ = nullptr;  // of a rank whose steps are looked at
  BlockRun block_ = {};           // that runs

 private:
  template <class T>
  T* watched(T* at, int64_t count) const {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, half> ||
                  std::is_same_v<T, bfloat16>)
      if (watch_ != nullptr) watch_->touch(at, count, dtype_of<T>());
    return at;
  }
  static constexpr Exchange box_of(int64_t count) { return {.dims = {{count, 1, 1}}}; }

  /// The body of a step without its type, so that what surrounds it is compiled once, not for each of hundreds.
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

  /// False where the step belongs to the thread of another stream; else leave() ends it.
  virtual bool enter(const Step& step, int64_t index) = 0;
  virtual void leave() = 0;
  /// Where the body of a step throws: a string that it could not compute with makes the request a wrong one, whose
  /// results are never shown; whatever else it was is thrown again.
  virtual void refuse_request(const Step& step) = 0;
  virtual void copy_bytes(void* to, const void* from, int64_t bytes) = 0;
  virtual void reduce_into(ReduceOp op, DType dtype, void* total, const void* part, int64_t count, bool first) = 0;
  virtual void take(const Group& g, int64_t element, const void* from, void* to, const Exchange& e) = 0;
  virtual void read(void* to, const void* at, size_t bytes) = 0;
  virtual void write(void* at, const void* from, size_t bytes) = 0;

  // Sources, and destinations that are integers, are offsets in windows.
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
