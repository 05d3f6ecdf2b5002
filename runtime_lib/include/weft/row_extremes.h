// The largest and the smallest element of a row that is computed element by element. Four vectors of results are
// independent of each other, and the lanes of the last one are combined as a tree. By itself, g++ would carry one
// vector through a loop and combine its lanes in sequence.
#pragma once
#include <limits>

#include "weft/math.h"
#include "weft/row_vectors.h"

namespace weft {

namespace detail {

struct Largest {
  template <class T>
  static constexpr T kStart = -std::numeric_limits<T>::infinity();
  /// The first operand where one of them is NaN.
  template <class V>
  static V ignoring_nan(V best, V x) {
    return x > best ? x : best;
  }
  template <class V>
  [[gnu::always_inline]] static V of(V a, V b) {
    return maximum(a, b);
  }
};
struct Smallest {
  template <class T>
  static constexpr T kStart = std::numeric_limits<T>::infinity();
  template <class V>
  static V ignoring_nan(V best, V x) {
    return x < best ? x : best;
  }
  template <class V>
  [[gnu::always_inline]] static V of(V a, V b) {
    return minimum(a, b);
  }
};

/// Tracks whether a lane has met a NaN.
template <class T>
class NanWatch {
 public:
  using Vector = typename RowVectors<T>::Vector;
  [[gnu::always_inline]] void look_at(const Vector& x) { met_ |= x != x; }
  [[gnu::always_inline]] Vector nan_or(const Vector& other) const {
    return met_ ? Vector{} + std::numeric_limits<T>::quiet_NaN() : other;
  }

 private:
  decltype(Vector() != Vector()) met_ = {};
};
/// Compares bits without the sign, which are largest for NaN: a CPU has more units for integers than for comparisons of
/// floats.
template <>
class NanWatch<float> {
 public:
  using Vector = RowVectors<float>::Vector;
  [[gnu::always_inline]] void look_at(const Vector& x) {
    const Bits bits = reinterpret_cast<Bits>(x) & 0x7fffffff;
    largest_ = bits > largest_ ? bits : largest_;
  }
  [[gnu::always_inline]] Vector nan_or(const Vector& other) const {
    return largest_ > 0x7f800000 ? Vector{} + std::numeric_limits<float>::quiet_NaN() : other;
  }

 private:
  typedef int32_t Bits __attribute__((vector_size(kVectorBytes)));
  Bits largest_ = {};
};

/// The extreme of `count` elements, NaN if one of them is: the result does not depend on the order.
template <class Extreme, class T, class Element>
[[gnu::always_inline]] inline T row_extreme(int64_t count, const Element& element) {
  using Row = RowVectors<T>;
  using Vector = typename Row::Vector;
  constexpr int64_t kLanes = Row::kLanes, kBlock = Row::kBlock;
  T rest = Extreme::template kStart<T>;
  if (count < kLanes) {
    for (int64_t i = 0; i < count; ++i) rest = Extreme::of(rest, T(element(i)));
    return rest;
  }
  const Vector start = Vector{} + rest;
  Vector best[kBlock] = {start, start, start, start};
  NanWatch<T> nan;
  const auto take = [&]<int64_t kCount>(std::integral_constant<int64_t, kCount>, int64_t first) {
    Vector block[kCount];
    Row::take(block, first, element);
#pragma GCC unroll 4
    for (int64_t v = 0; v < kCount; ++v) {
      best[v] = Extreme::ignoring_nan(best[v], block[v]);
      nan.look_at(block[v]);
    }
  };
  int64_t i = 0;
  for (; i + kBlock * kLanes <= count; i += kBlock * kLanes) take(std::integral_constant<int64_t, kBlock>(), i);
  for (; i + kLanes <= count; i += kLanes) take(std::integral_constant<int64_t, 1>(), i);
  if (i < count) take(std::integral_constant<int64_t, 1>(), count - kLanes);  // repeats some elements
  const Vector all =
      Extreme::ignoring_nan(Extreme::ignoring_nan(best[0], best[1]), Extreme::ignoring_nan(best[2], best[3]));
  return all_lanes<T, kVectorBytes>(nan.nan_or(all), [](auto a, auto b) { return Extreme::of(a, b); });
}

}  // namespace detail

/// The largest of element(0) .. element(count - 1); NaN if one of them is; -infinity if `count` is 0.
template <class T, class Element>
[[gnu::always_inline]] inline T maximum_of(int64_t count, const Element& element) {
  return detail::row_extreme<detail::Largest, T>(count, element);
}
/// The smallest likewise; infinity if `count` is 0.
template <class T, class Element>
[[gnu::always_inline]] inline T minimum_of(int64_t count, const Element& element) {
  return detail::row_extreme<detail::Smallest, T>(count, element);
}

}  // namespace weft
