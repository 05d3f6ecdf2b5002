// Strided copies and reductions, over runs of the innermost dimension.
#include "collectives.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace weft {

Box::Box(const Dim (&from)[kMaxDims]) {
  for (const Dim& d : from) {
    if (d.extent == 1) continue;
    Dim* outer = ndim > 0 ? &dims[ndim - 1] : nullptr;
    if (outer != nullptr && outer->src_stride == d.extent * d.src_stride &&
        outer->dst_stride == d.extent * d.dst_stride)
      *outer = {outer->extent * d.extent, d.src_stride, d.dst_stride};
    else
      dims[ndim++] = d;
  }
  if (ndim == 0) dims[ndim++] = {1, 1, 1};
}

int64_t Box::count() const {
  int64_t n = 1;
  for (int i = 0; i < ndim; ++i) n *= dims[i].extent;
  return n;
}

namespace {

/// Calls run(src offset, dst offset, n) for the runs along the innermost dimension that cover elements begin .. end.
template <class Run>
void for_each_run(const Box& box, int64_t begin, int64_t end, Run&& run) {
  const Dim& inner = box.dims[box.ndim - 1];
  while (begin < end) {
    int64_t rest = begin / inner.extent, first = begin % inner.extent;
    int64_t src = first * inner.src_stride, dst = first * inner.dst_stride;
    for (int d = box.ndim - 2; d >= 0; rest /= box.dims[d].extent, --d) {
      src += rest % box.dims[d].extent * box.dims[d].src_stride;
      dst += rest % box.dims[d].extent * box.dims[d].dst_stride;
    }
    const int64_t n = std::min(inner.extent - first, end - begin);
    run(src, dst, n);
    begin += n;
  }
}

template <class T>
void copy_strided(const char* src, char* dst, int64_t n, const Dim& d) {
  for (int64_t i = 0; i < n; ++i)
    memcpy(dst + i * d.dst_stride * int64_t{sizeof(T)}, src + i * d.src_stride * int64_t{sizeof(T)}, sizeof(T));
}

void copy_run(const char* src, char* dst, int64_t n, const Dim& d, int64_t element) {
  if (n == 1 || (d.src_stride == 1 && d.dst_stride == 1))
    memcpy(dst, src, size_t(n * element));
  else if (element == 1)
    copy_strided<uint8_t>(src, dst, n, d);
  else if (element == 2)
    copy_strided<uint16_t>(src, dst, n, d);
  else if (element == 4)
    copy_strided<uint32_t>(src, dst, n, d);
  else
    copy_strided<uint64_t>(src, dst, n, d);
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
A combine(A a, A b) {
  if constexpr (op == ReduceOp::Max) return a > b || a != a ? a : b;  // NaN wins, as in ONNX Max
  if constexpr (op == ReduceOp::Min) return a < b || a != a ? a : b;
  if constexpr (std::is_same_v<A, bool>) return op == ReduceOp::Sum ? a || b : a && b;
  if constexpr (std::is_integral_v<A> && !std::is_same_v<A, bool>) {  // unsigned, so that an overflow wraps
    using Unsigned = std::make_unsigned_t<A>;
    const uint64_t x = Unsigned(a), y = Unsigned(b);
    return A(op == ReduceOp::Sum ? x + y : x * y);
  }
  return op == ReduceOp::Sum ? A(a + b) : A(a * b);
}

constexpr int64_t kBlock = 256;  // elements of a partial result, in the first-level cache

template <class T, ReduceOp op>
void reduce_run(const char* const* sources, int n, int64_t src, char* to, int64_t dst, int64_t count, const Dim& d) {
  using A = typename Sum<T>::Type;
  A sum[kBlock];
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t block = std::min(kBlock, count - first);
    for (int p = 0; p < n; ++p) {
      const T* in = reinterpret_cast<const T*>(sources[p]) + src + first * d.src_stride;
      if (p == 0)
        for (int64_t i = 0; i < block; ++i) sum[i] = A(in[i * d.src_stride]);
      else if (d.src_stride == 1)
        for (int64_t i = 0; i < block; ++i) sum[i] = combine<op, A>(sum[i], A(in[i]));
      else
        for (int64_t i = 0; i < block; ++i) sum[i] = combine<op, A>(sum[i], A(in[i * d.src_stride]));
    }
    T* out = reinterpret_cast<T*>(to) + dst + first * d.dst_stride;
    if (d.dst_stride == 1)
      for (int64_t i = 0; i < block; ++i) out[i] = T(sum[i]);
    else
      for (int64_t i = 0; i < block; ++i) out[i * d.dst_stride] = T(sum[i]);
  }
}

using Reduce = void (*)(const char* const*, int, int64_t, char*, int64_t, int64_t, const Dim&);

template <class T>
Reduce reduce_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return reduce_run<T, ReduceOp::Sum>;
    case ReduceOp::Max:
      return reduce_run<T, ReduceOp::Max>;
    case ReduceOp::Min:
      return reduce_run<T, ReduceOp::Min>;
    case ReduceOp::Prod:
      return reduce_run<T, ReduceOp::Prod>;
  }
  return nullptr;
}

Reduce reduce_of(DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::F32:
      return reduce_of<float>(op);
    case DType::F64:
      return reduce_of<double>(op);
    case DType::F16:
      return reduce_of<half>(op);
    case DType::BF16:
      return reduce_of<bfloat16>(op);
    case DType::I8:
      return reduce_of<int8_t>(op);
    case DType::I16:
      return reduce_of<int16_t>(op);
    case DType::I32:
      return reduce_of<int32_t>(op);
    case DType::I64:
      return reduce_of<int64_t>(op);
    case DType::U8:
      return reduce_of<uint8_t>(op);
    case DType::U16:
      return reduce_of<uint16_t>(op);
    case DType::U32:
      return reduce_of<uint32_t>(op);
    case DType::U64:
      return reduce_of<uint64_t>(op);
    case DType::Bool:
      return reduce_of<bool>(op);
    default:
      break;  // the compiler refuses arithmetic on types of at most 8 bits that have no name in C++
  }
  return nullptr;
}

}  // namespace

void copy_box(const Box& box, int64_t element, const char* src, char* dst, int64_t begin, int64_t end) {
  for_each_run(box, begin, end, [&](int64_t from, int64_t to, int64_t n) {
    copy_run(src + from * element, dst + to * element, n, box.dims[box.ndim - 1], element);
  });
}

void reduce_box(const Box& box, ReduceOp op, DType dtype, const char* const* sources, int n, char* dst, int64_t begin,
                int64_t end) {
  const Reduce run = reduce_of(dtype, op);
  for_each_run(box, begin, end, [&](int64_t from, int64_t to, int64_t count) {
    run(sources, n, from, dst, to, count, box.dims[box.ndim - 1]);
  });
}

void copy_message(const Message& message, int64_t element, const char* src, char* dst) {
  const Box box(message.dims);
  copy_box(box, element, src + message.src * element, dst + message.dst * element, 0, box.count());
}

}  // namespace weft
