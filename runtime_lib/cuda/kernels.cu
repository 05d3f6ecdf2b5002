// Kernels for the strided copies and reductions of collectives, for flags, and for scalars of steps.
#include "finite_form.h"
#include "kernels.h"
#include "launch.h"
#include "weft/device.h"

namespace weft {

namespace kernels {

constexpr unsigned kThreads = 256, kMaxBlocks = 1024;

inline Grid grid_of(int64_t count) {
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  return {unsigned(blocks < kMaxBlocks ? blocks : kMaxBlocks), kThreads};
}

/// Offsets of the i-th element of a box.
struct Offsets {
  int64_t src = 0, dst = 0;
};
WEFT_DEVICE Offsets offsets_of(const Box& box, int64_t i) {
  Offsets out;
  for (int d = box.ndim - 1; d >= 0; --d) {
    const int64_t rest = d == 0 ? 0 : i / box.dims[d].extent, at = i - rest * box.dims[d].extent;
    out.src += at * box.dims[d].src_stride;
    out.dst += at * box.dims[d].dst_stride;
    i = rest;
  }
  return out;
}

template <class T>
__global__ void copy(const __grid_constant__ Box box, int64_t count, const T* src, T* dst) {
  const int64_t stride = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const Offsets at = offsets_of(box, i);
    dst[at.dst] = src[at.src];
  }
}

/// The type in which a reduction is computed.
template <class T>
struct Sum {
  using Type = T;
};
template <>
struct Sum<half> {
  using Type = float;
};
template <>
struct Sum<bfloat16> {
  using Type = float;
};

template <ReduceOp op, class A>
WEFT_DEVICE A combine(A a, A b) {
  if constexpr (op == ReduceOp::Max) {
    return maximum(a, b);
  } else if constexpr (op == ReduceOp::Min) {
    return minimum(a, b);
  } else if constexpr (std::is_same_v<A, bool>) {
    return op == ReduceOp::Sum ? a || b : a && b;
  } else if constexpr (std::is_integral_v<A>) {  // unsigned, so that an overflow wraps
    const uint64_t x = uint64_t(a), y = uint64_t(b);
    return A(op == ReduceOp::Sum ? x + y : x * y);
  } else {
    return op == ReduceOp::Sum ? a + b : a * b;
  }
}

template <class T, ReduceOp op>
__global__ void reduce(const __grid_constant__ Box box, int64_t count, const __grid_constant__ Sources sources,
                       T* dst) {
  using A = typename Sum<T>::Type;
  const int64_t stride = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const Offsets at = offsets_of(box, i);
    A sum = A(static_cast<const T*>(sources.at[0])[at.src]);
    for (int p = 1; p < sources.count; ++p) sum = combine<op, A>(sum, A(static_cast<const T*>(sources.at[p])[at.src]));
    dst[at.dst] = T(sum);
  }
}

__global__ void store_words(IterationWords* words, IterationWords values) { *words = values; }

template <class T>
__global__ void store(T* at, T value) {
  *at = value;
}

__global__ void mark(uint32_t* progress, uint32_t value) { store_release(progress, value); }

/// The mark of the 32 elements from 32 * `word` on.
template <class Bits>
WEFT_DEVICE NotFiniteMark mark_of(FiniteForm<Bits> form, const Bits* at, int64_t count, int64_t word) {
  NotFiniteMark mark = {0, 2166136261u};  // FNV-1a
  for (int64_t i = word * 32; i < count && i < word * 32 + 32; ++i) {
    if ((at[i] & form.exponent) != form.exponent) continue;
    mark.elements |= 1u << (i & 31);
    mark.hash = (mark.hash ^ uint32_t(at[i] & form.fraction)) * 16777619u;
  }
  return mark;
}

template <class Bits>
__global__ void mark_not_finite(FiniteForm<Bits> form, const Bits* at, int64_t count, NotFiniteMark* marks) {
  const int64_t stride = int64_t(gridDim.x) * blockDim.x;
  for (int64_t w = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; w * 32 < count; w += stride)
    marks[w] = mark_of(form, at, count, w);
}

template <class Bits>
__global__ void find_not_finite(FiniteForm<Bits> form, const Bits* at, int64_t count, const NotFiniteMark* marks,
                                uint32_t check, NotFiniteFound* found) {
  const int64_t stride = int64_t(gridDim.x) * blockDim.x;
  for (int64_t w = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; w * 32 < count; w += stride) {
    const NotFiniteMark before = marks[w], now = mark_of(form, at, count, w);
    if (now.elements == 0 || (now.elements == before.elements && now.hash == before.hash)) continue;
    // If only bits have changed, any non-finite element may be a result.
    const uint32_t made = (now.elements & ~before.elements) != 0 ? now.elements & ~before.elements : now.elements;
    for (int64_t i = w * 32; i < count && i < w * 32 + 32; ++i) {
      if ((made >> (i & 31) & 1) == 0) continue;
      const int kind = int((at[i] & form.fraction) != 0 ? NumberKind::NaN : NumberKind::Infinity);
      const auto place = NotFiniteFound::Word(check) << NotFiniteFound::kElementBits | NotFiniteFound::Word(i);
      if (atomicMin(&found->place[kind], place) > place) atomicMin(&found->ns[kind], NotFiniteFound::Word(clock_ns()));
    }
  }
}

__global__ void signal(const __grid_constant__ Peers peers, const __grid_constant__ Signal signal, int i) {
  peers.signal(signal, i);
}
__global__ void wait(const __grid_constant__ Peers peers, const __grid_constant__ Signal signal, int i) {
  peers.wait(signal, i);
}
__global__ void barrier(const __grid_constant__ Peers peers) { peers.barrier(); }

/// y = epilogue(sum + bias). The sum is the product of the operands, or already in y.
template <class T, bool kMultiplies>
__global__ void epilogue(const __grid_constant__ Contraction c, const T* a, const T* b, const T* bias, T* y) {
  using A = typename Sum<T>::Type;
  const int64_t stride = int64_t(gridDim.x) * blockDim.x, count = c.outer * c.batch * c.m * c.n;
  const bool is_relu = c.epilogue == Epilogue::Relu || c.epilogue == Epilogue::BiasRelu;
  const bool is_gelu = c.epilogue == Epilogue::Gelu || c.epilogue == Epilogue::BiasGelu;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const int64_t n = i % c.n, m = i / c.n % c.m, batch = i / (c.n * c.m) % c.batch, outer = i / (c.n * c.m * c.batch);
    T& out = y[n * c.y.column + m * c.y.row + batch * c.y.batch + outer * c.y.outer];
    A sum = A(0);
    if constexpr (kMultiplies) {
      const T* row = a + m * c.a.row + batch * c.a.batch + outer * c.a.outer;
      const T* column = b + n * c.b.column + batch * c.b.batch + outer * c.b.outer;
      for (int64_t k = 0; k < c.k; ++k) sum += A(row[k * c.a.column]) * A(column[k * c.b.row]);
    } else {
      sum = A(out);
    }
    if (bias != nullptr) sum += A(bias[n]);
    if (is_relu) sum = maximum(sum, A(0));
    if (is_gelu) sum = gelu_tanh(sum);
    out = T(sum);
  }
}

}  // namespace kernels

using namespace kernels;

template <class T>
static void copy_elements(cudaStream_t stream, const Box& box, const void* src, void* dst) {
  launch_kernel(stream, kernels::copy<T>, grid_of(box.count()), box, box.count(), static_cast<const T*>(src),
                static_cast<T*>(dst));
}

void copy_box(cudaStream_t stream, const Box& box, int64_t element, const void* src, void* dst) {
  const int64_t count = box.count();
  if (count == 0) return;
  if (box.ndim == 1 && (count == 1 || (box.dims[0].src_stride == 1 && box.dims[0].dst_stride == 1)))
    return check_cuda(cudaMemcpyAsync(dst, src, size_t(count * element), cudaMemcpyDeviceToDevice, stream), "a copy");
  switch (element) {
    case 1:
      return copy_elements<uint8_t>(stream, box, src, dst);
    case 2:
      return copy_elements<uint16_t>(stream, box, src, dst);
    case 4:
      return copy_elements<uint32_t>(stream, box, src, dst);
    default:
      return copy_elements<uint64_t>(stream, box, src, dst);
  }
}

/// Calls f(T()) for the type of a tag.
template <class F>
static void with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::F32:
      return f(float());
    case DType::F64:
      return f(double());
    case DType::F16:
      return f(half());
    case DType::BF16:
      return f(bfloat16());
    case DType::I8:
      return f(int8_t());
    case DType::I16:
      return f(int16_t());
    case DType::I32:
      return f(int32_t());
    case DType::I64:
      return f(int64_t());
    case DType::U8:
      return f(uint8_t());
    case DType::U16:
      return f(uint16_t());
    case DType::U32:
      return f(uint32_t());
    case DType::U64:
      return f(uint64_t());
    case DType::Bool:
      return f(bool());
    default:
      fail(kBug, "arithmetic on %s", dtype_name(dtype));  // which the compiler refuses
  }
}

template <ReduceOp op>
static void reduce_by(cudaStream_t stream, const Box& box, DType dtype, const Sources& sources, void* dst) {
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    launch_kernel(stream, kernels::reduce<T, op>, grid_of(box.count()), box, box.count(), sources,
                  static_cast<T*>(dst));
  });
}

void reduce_box(cudaStream_t stream, const Box& box, ReduceOp op, DType dtype, const Sources& sources, void* dst) {
  if (box.count() == 0) return;
  switch (op) {
    case ReduceOp::Sum:
      return reduce_by<ReduceOp::Sum>(stream, box, dtype, sources, dst);
    case ReduceOp::Max:
      return reduce_by<ReduceOp::Max>(stream, box, dtype, sources, dst);
    case ReduceOp::Min:
      return reduce_by<ReduceOp::Min>(stream, box, dtype, sources, dst);
    case ReduceOp::Prod:
      return reduce_by<ReduceOp::Prod>(stream, box, dtype, sources, dst);
  }
}

/// Calls f(T()) for a type of contractions.
template <class F>
static void with_contracted_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::F32:
      return f(float());
    case DType::F64:
      return f(double());
    case DType::F16:
      return f(half());
    case DType::BF16:
      return f(bfloat16());
    default:
      fail(kBug, "a contraction of %s", dtype_name(dtype));
  }
}

template <bool kMultiplies>
static void finish(cudaStream_t stream, const Contraction& c, DType dtype, const void* a, const void* b,
                   const void* bias, void* y) {
  with_contracted_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    launch_kernel(stream, kernels::epilogue<T, kMultiplies>, grid_of(c.outer * c.batch * c.m * c.n), c,
                  static_cast<const T*>(a), static_cast<const T*>(b), static_cast<const T*>(bias), static_cast<T*>(y));
  });
}

void apply_epilogue(cudaStream_t stream, const Contraction& c, DType dtype, const void* bias, void* y) {
  finish<false>(stream, c, dtype, nullptr, nullptr, bias, y);
}

void contract_plainly(cudaStream_t stream, const Contraction& c, DType dtype, const void* a, const void* b,
                      const void* bias, void* y) {
  finish<true>(stream, c, dtype, a, b, bias, y);
}

void store_words(cudaStream_t stream, IterationWords* words, IterationWords values) {
  launch_kernel(stream, kernels::store_words, {}, words, values);
}

void store_value(cudaStream_t stream, void* at, uint64_t bits, int bytes) {
  switch (bytes) {
    case 1:
      return launch_kernel(stream, kernels::store<uint8_t>, {}, static_cast<uint8_t*>(at), uint8_t(bits));
    case 2:
      return launch_kernel(stream, kernels::store<uint16_t>, {}, static_cast<uint16_t*>(at), uint16_t(bits));
    case 4:
      return launch_kernel(stream, kernels::store<uint32_t>, {}, static_cast<uint32_t*>(at), uint32_t(bits));
    default:
      return launch_kernel(stream, kernels::store<uint64_t>, {}, static_cast<uint64_t*>(at), bits);
  }
}

void mark_not_finite(cudaStream_t stream, DType dtype, const void* at, int64_t count, NotFiniteMark* marks) {
  with_form(dtype, [&]<class Bits>(FiniteForm<Bits> form) {
    launch_kernel(stream, kernels::mark_not_finite<Bits>, grid_of(marks_of(count)), form, static_cast<const Bits*>(at),
                  count, marks);
  });
}

void find_not_finite(cudaStream_t stream, DType dtype, const void* at, int64_t count, const NotFiniteMark* marks,
                     uint32_t check, NotFiniteFound* found) {
  with_form(dtype, [&]<class Bits>(FiniteForm<Bits> form) {
    launch_kernel(stream, kernels::find_not_finite<Bits>, grid_of(marks_of(count)), form, static_cast<const Bits*>(at),
                  count, marks, check, found);
  });
}

void mark_progress(cudaStream_t stream, uint32_t* progress, uint32_t value) {
  launch_kernel(stream, kernels::mark, {}, progress, value);
}

constexpr Grid kOneWarp = {1, kMaxPeers};

void signal_flags(cudaStream_t stream, const Peers& peers, const Signal& signal, int i) {
  launch_kernel(stream, kernels::signal, kOneWarp, peers, signal, i);
}

void wait_for_flags(cudaStream_t stream, const Peers& peers, const Signal& signal, int i) {
  launch_kernel(stream, kernels::wait, kOneWarp, peers, signal, i);
}

void peer_barrier(cudaStream_t stream, const Peers& peers) { launch_kernel(stream, kernels::barrier, kOneWarp, peers); }

}  // namespace weft
