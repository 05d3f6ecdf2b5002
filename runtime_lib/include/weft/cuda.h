// The runtime surface of cuda programs: one GPU a rank. One host thread walks the program and issues every step to its
// stream; nothing here waits for the device but `value`.
#pragma once
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "weft/peers.h"
#include "weft/program.h"

namespace weft {

struct CudaState;  // what is behind a Rank

struct Grid {
  unsigned blocks = 1, threads = 1;
};

/// Element strides of one operand; row or column is 1.
struct Matrix {
  int64_t row, column, batch = 0, outer = 0;
};
enum class Epilogue { None, Bias, Relu, BiasRelu, Gelu, BiasGelu };  // Gelu: the tanh form

/// y[o][i][m][n] = epilogue(sum_k a[o][i][m][k] * b[o][i][k][n] + bias[n]), summed in float (double for double).
struct Contraction {
  int64_t m, n, k;
  Matrix a, b, y;
  int64_t batch = 1, outer = 1;
  Epilogue epilogue = Epilogue::None;
};

/// A kernel as the runtime launches it: the address of its stub on the host.
struct KernelEntry {
  const void* address;
#if defined(WEFT_EMULATE)
  std::function<void()> (*bind)(const void* address, void** arguments);  // one thread of a launch
#endif
};

namespace detail {
#if defined(WEFT_EMULATE)
template <class... P, size_t... I>
std::function<void()> bind_kernel(void (*kernel)(P...), void** arguments, std::index_sequence<I...>) {
  return [kernel, values = std::tuple<std::remove_cv_t<P>...>(*static_cast<std::remove_cv_t<P>*>(arguments[I])...)] {
    std::apply(kernel, values);
  };
}
template <class... P>
KernelEntry kernel_entry(void (*kernel)(P...)) {
  return {reinterpret_cast<const void*>(kernel), [](const void* address, [[maybe_unused]] void** arguments) {
            return bind_kernel(reinterpret_cast<void (*)(P...)>(const_cast<void*>(address)), arguments,
                               std::index_sequence_for<P...>());
          }};
}
#else
template <class... P>
KernelEntry kernel_entry(void (*kernel)(P...)) {
  return {reinterpret_cast<const void*>(kernel)};
}
#endif

/// Converts arguments to the kernel's parameter types, and calls start(entry, addresses of the arguments).
template <class Start, class... P, class... A>
void with_arguments(Start&& start, void (*kernel)(P...), A... arguments) {
  static_assert(sizeof...(P) == sizeof...(A), "as many arguments as the kernel has parameters");
  static_assert((std::is_trivially_copyable_v<P> && ...), "arguments travel to the device as bytes");
  std::tuple<std::remove_cv_t<P>...> values(static_cast<std::remove_cv_t<P>>(arguments)...);
  std::apply(
      [&](auto&... value) {
        void* addresses[] = {&value..., nullptr};
        start(kernel_entry(kernel), addresses);
      },
      values);
}
}  // namespace detail

/// One rank as the program sees it.
class Rank {
 public:
  const int rank;  // in the world

  explicit Rank(CudaState& state);
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  template <class T>
  T* operator[](Own<T> b) const {
    return reinterpret_cast<T*>(own_ + b.offset);
  }
  template <class T>
  T* operator[](Window<T> b) const {
    return reinterpret_cast<T*>(window_ + b.offset);
  }
  template <class T>
  const T* operator[](Weight<T> w) const {
    return reinterpret_cast<const T*>(image_ + w.offset);
  }

  int index(const Group& group) const { return group.index(rank); }
  int coordinate(const Axis& axis) const { return axis.coordinate(rank); }
  /// The number of the invocation, in device memory: the last word of a random number's counter.
  const uint32_t* invocation_at() const { return invocation_; }

  /// Issues what `body` launches to the step's stream. Bodies may hold further steps of the same stream. What stands
  /// outside steps concerns all streams.
  template <class Body>
  void step(const Step& step, Body&& body) {
    this->step(step, 0, static_cast<Body&&>(body));
  }
  template <class Body>
  void step(const Step& step, int64_t index, Body&& body) {
    enter(step, index);
    body();
    leave();
  }
  /// Element i of the signal is done once the stream has come here. Without a group it is an event between streams of
  /// this rank, with one a flag in the window of every rank of the group.
  void signal(const Signal& signal, int i = 0);
  /// The stream waits for element i, signalled by every rank of the signal's group.
  void wait(const Signal& signal, int i = 0);
  /// All ranks of the group have come here on this stream.
  void barrier(const Group& group);
  /// Before a kernel that waits for this rank's other streams: what a library makes at its first collective of a group
  /// is made now, since it may wait for the device.
  void prepare(const Group& group);
  Peers peers(const Group& group);
  /// A run-time length that exceeds its bound ends the program with exit 1 after the iteration, naming the value.
  void check_count(const char* value, int64_t* count, int64_t bound);

  template <class... P, class... A>
  void launch(void (*kernel)(P...), Grid grid, A... arguments) {
    detail::with_arguments([&](const KernelEntry& k, void** at) { start(k, grid, at); }, kernel, arguments...);
  }
  /// A kernel that waits for peers: at most kMaxPeerBlocks blocks, all of which must be resident.
  template <class... P, class... A>
  void launch_resident(void (*kernel)(P...), Grid grid, A... arguments) {
    detail::with_arguments([&](const KernelEntry& k, void** at) { start_resident(k, grid, at); }, kernel, arguments...);
  }
  /// T is float, double, half or bfloat16. `bias` may be nullptr where the epilogue has none.
  template <class T>
  void contract(const Contraction& c, const std::type_identity_t<T>* a, const std::type_identity_t<T>* b,
                const std::type_identity_t<T>* bias, T* y) {
    contract(c, dtype_of<T>(), a, b, bias, y);
  }

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
  /// Waits for the stream and reads one element: predicates and trip counts.
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

  // As those of weft/host.h, but asynchronous on the step's stream.

  template <class T>
  void all_reduce(const Group& g, ReduceOp op, Window<T> src, T* dst, const Exchange& box) {
    reduce_all(g, op, dtype_of<T>(), src.offset, dst, box);
  }
  template <class T>
  void all_reduce(const Group& g, ReduceOp op, Window<T> src, T* dst, int64_t count) {
    all_reduce(g, op, src, dst, Exchange{.dims = {{count, 1, 1}}});
  }
  /// `dst` may be `src` itself.
  template <class T>
  void all_reduce(const Group& g, ReduceOp op, Window<T> src, Window<T> dst, const Exchange& box) {
    all_reduce(g, op, src, (*this)[dst], box);
  }
  template <class T>
  void all_reduce(const Group& g, ReduceOp op, Window<T> src, Window<T> dst, int64_t count) {
    all_reduce(g, op, src, (*this)[dst], count);
  }
  template <class T>
  void reduce_scatter(const Group& g, ReduceOp op, Window<T> src, T* dst, const Exchange& e) {
    reduce_slices(g, op, dtype_of<T>(), src.offset, dst, e);
  }
  template <class T>
  void all_gather(const Group& g, Window<T> src, T* dst, const Exchange& e) {
    gather(g, dtype_of<T>(), src.offset, dst, e);
  }
  template <class T>
  void all_to_all(const Group& g, Window<T> src, T* dst, const Exchange& e) {
    exchange(g, dtype_of<T>(), src.offset, dst, e);
  }
  /// `dst` may be the root's `src`.
  template <class T>
  void broadcast(const Group& g, int root, Window<T> src, T* dst, int64_t count) {
    broadcast_from(g, root, dtype_of<T>(), src.offset, dst, count);
  }
  template <class T>
  void reduce(const Group& g, int root, ReduceOp op, Window<T> src, T* dst, int64_t count) {
    reduce_root(g, root, op, dtype_of<T>(), src.offset, dst, count);
  }

  template <class T>
  void send(const Transfer& t, int micro_batch, Window<T> src) {
    send_rows(t, micro_batch, dtype_of<T>(), src.offset);
  }
  template <class T>
  void recv(const Transfer& t, int micro_batch, Window<T> src, T* dst) {
    recv_rows(t, micro_batch, dtype_of<T>(), src.offset, dst);
  }

 private:
  void enter(const Step& step, int64_t index);
  void leave();
  void start(const KernelEntry& kernel, Grid grid, void** arguments);
  void start_resident(const KernelEntry& kernel, Grid grid, void** arguments);
  void contract(const Contraction& c, DType dtype, const void* a, const void* b, const void* bias, void* y);
  void copy_bytes(void* to, const void* from, int64_t bytes);
  void reduce_into(ReduceOp op, DType dtype, void* total, const void* part, int64_t count, bool first);
  void take(const Group& g, int64_t element, const void* from, void* to, const Exchange& e);
  void read(void* to, const void* at, size_t bytes);
  void write(void* at, const void* from, size_t bytes);
  void reduce_all(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e);
  void reduce_slices(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e);
  void gather(const Group& g, DType dtype, int64_t src, void* dst, const Exchange& e);
  void exchange(const Group& g, DType dtype, int64_t src, void* dst, const Exchange& e);
  void broadcast_from(const Group& g, int root, DType dtype, int64_t src, void* dst, int64_t count);
  void reduce_root(const Group& g, int root, ReduceOp op, DType dtype, int64_t src, void* dst, int64_t count);
  void send_rows(const Transfer& t, int micro_batch, DType dtype, int64_t src);
  void recv_rows(const Transfer& t, int micro_batch, DType dtype, int64_t src, void* dst);

  CudaState& state_;
  char *own_, *window_;
  const char* image_;
  const uint32_t* invocation_;
};

}  // namespace weft
