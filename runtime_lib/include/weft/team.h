// The threads of one stream of one rank: a parallel loop, cut into chunks.
#pragma once
#include <cstdint>
#include <type_traits>

/// Keeps one copy of a function for all callers and arguments. The compiler contracts a product and a sum to one
/// rounding as it sees fit, so two copies of a loop may give different bits.
#ifdef __clang__
#define WEFT_ONE_COPY [[gnu::noinline]]
#else
#define WEFT_ONE_COPY [[gnu::noipa]]
#endif

namespace weft {

/// A team of threads, including the caller. Each takes chunks of its own share first, then those that others left.
/// Workers spin briefly between loops, then sleep. Only the thread of the stream that owns the team starts loops. A
/// loop inside a loop body runs on the calling thread alone.
class Team {
 public:
  /// `cores`, if given, has one for each thread; workers keep to theirs.
  explicit Team(int threads, const int* cores = nullptr);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// A team of the calling thread alone, for kernels that are called from a loop body and should not divide their work.
  static Team& alone();

  int threads() const { return threads_; }
  /// True every second time in a row that the operand is the same. The caller then reads it from its end, which the
  /// caches still hold. The steps of a recurrence read one matrix again and again.
  bool comes_again(const void* operand) {
    is_again_ = operand == last_operand_ && !is_again_;
    last_operand_ = operand;
    return is_again_;
  }
  /// Calls f(begin, end) for ranges that cover 0 .. count once. Ranges begin at multiples of `grain`; up to `grain`
  /// items are not worth a second thread. An exception of f is rethrown when all threads are done. Each item gives the
  /// same bits for any number of threads.
  template <class F>
  void parallel(int64_t count, int64_t grain, F&& f) {
    using Body = std::remove_reference_t<F>;
    if (count <= 0) return;
    void* body = const_cast<void*>(static_cast<const void*>(&f));
    if (threads_ == 1 || count <= grain) return call<Body>(body, 0, count);
    run(count, grain, call<Body>, body);
  }
  /// Calls f(begin, count) once for each thread that has work, on a multiple of `tile` items (the last thread takes the
  /// rest). For work that reads as much for few items as for many.
  template <class F>
  void share(int64_t items, int64_t tile, F&& f) {
    const int64_t each = (items + threads_ * tile - 1) / (threads_ * tile) * tile;
    parallel(items, each, [&](int64_t begin, int64_t end) { f(begin, end - begin); });
  }

 private:
  using Call = void (*)(void* body, int64_t begin, int64_t end);
  template <class Body>
  WEFT_ONE_COPY static void call(void* body, int64_t begin, int64_t end) {
    Body own(*static_cast<Body*>(body));  // captures are read once, not in each loop
    own(begin, end);
  }
  void run(int64_t count, int64_t grain, Call call, void* body);

  struct Shared;
  int threads_;
  Shared* shared_;
  const void* last_operand_ = nullptr;
  bool is_again_ = false;
};

}  // namespace weft
