// The runtime surface of cuda programs: one GPU a rank. One host thread walks the program and issues every step to its
// stream; nothing here waits for the device but `value`.
#pragma once
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "weft/peers.h"
#include "weft/rank_surface.h"

namespace weft {

struct CudaState;  // the implementation of a Rank

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

/// One rank as the program sees it: its calls are issued to the stream of the open step. The runtime derives a rank
/// from it that issues nothing, for rehearsals.
class Rank : public RankSurface {
 public:
  explicit Rank(CudaState& state);

  /// The number of the invocation, in device memory: the last word of a random number's counter.
  const uint32_t* invocation_at() const { return invocation_; }

  bool evaluates() const override;
  /// Without a group a signal is an event between streams of this rank, with one a flag in the window of every rank of
  /// the group.
  void signal(const Signal& signal, int i = 0) override;
  void wait(const Signal& signal, int i = 0) override;
  void barrier(const Group& group) override;
  /// Called before a kernel that waits for other streams of this rank. It sets up now what a library would set up at
  /// its first collective of the group, since that may wait for the device.
  void prepare(const Group& group);
  Peers peers(const Group& group);
  /// `node` names in messages the node whose index is wrong, such as "node 'look' (Gather)".
  IndexCheck indices_of(const char* node, int layer = kNoLayer);

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

 protected:
  CudaState& state_;

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

  virtual void start(const KernelEntry& kernel, Grid grid, void** arguments);
  virtual void start_resident(const KernelEntry& kernel, Grid grid, void** arguments);
  /// Not virtual: a virtual function would be linked into programs that contract nothing.
  void contract(const Contraction& c, DType dtype, const void* a, const void* b, const void* bias, void* y);

  const uint32_t* invocation_;
};

}  // namespace weft
