// Windows of convolutions: the columns that make one a product of matrices, and convolutions of single channels.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>

#include "weft/team.h"

namespace weft {

/// Three spatial dimensions, leading ones of extent 1 where there are fewer.
struct SlidingWindow {
  int64_t in[3], out[3], taps[3], stride[3], dilation[3], pad[3];

  constexpr int64_t in_count() const { return in[0] * in[1] * in[2]; }
  constexpr int64_t out_count() const { return out[0] * out[1] * out[2]; }
  constexpr int64_t tap_count() const { return taps[0] * taps[1] * taps[2]; }
  /// Input position of a tap, outside [0, in) in the padding.
  constexpr int64_t at(int d, int64_t o, int64_t tap) const { return o * stride[d] + tap * dilation[d] - pad[d]; }
  /// The outputs first .. last along the last dimension whose tap lies inside the input.
  constexpr void inside(int64_t tap, int64_t& first, int64_t& last) const {
    const int64_t shift = tap * dilation[2] - pad[2];
    first = shift >= 0 ? 0 : (-shift + stride[2] - 1) / stride[2];
    last = in[2] - 1 - shift < 0 ? 0 : (in[2] - 1 - shift) / stride[2] + 1;
    last = std::min(last, out[2]);
    first = std::min(first, last);
  }
};

namespace detail {
/// One output row of one tap: zeros where the tap lies in the padding.
template <class T>
inline void unfold_row(const SlidingWindow& w, const T* row, int64_t tap, T* to) {
  int64_t first, last;
  w.inside(tap, first, last);
  for (int64_t o = 0; o < first; ++o) to[o] = T(0);
  const T* from = row ? row + w.at(2, first, tap) : nullptr;
  if (!row) std::fill(to + first, to + last, T(0));
  else if (w.stride[2] == 1) std::copy(from, from + (last - first), to + first);
  else
    for (int64_t o = first; o < last; ++o) to[o] = from[(o - first) * w.stride[2]];
  for (int64_t o = last; o < w.out[2]; ++o) to[o] = T(0);
}
template <class T>
inline const T* input_row(const SlidingWindow& w, const T* plane, int64_t z, int64_t y) {
  const bool held = z >= 0 && z < w.in[0] && y >= 0 && y < w.in[1];
  return held ? plane + (z * w.in[1] + y) * w.in[2] : nullptr;
}
}  // namespace detail

/// columns[plane][tap][output] of `planes` planes x[plane][input].
template <class T>
void unfold(Team& team, const SlidingWindow& w, int64_t planes, const T* x, T* columns) {
  const int64_t taps = w.tap_count(), outputs = w.out_count();
  team.parallel(planes * taps, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, outputs)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t tap = i % taps;
      const T* plane = x + i / taps * w.in_count();
      T* to = columns + i * outputs;
      for (int64_t z = 0; z < w.out[0]; ++z)
        for (int64_t y = 0; y < w.out[1]; ++y, to += w.out[2]) {
          const int64_t in_z = w.at(0, z, tap / (w.taps[1] * w.taps[2])), in_y = w.at(1, y, tap / w.taps[2] % w.taps[1]);
          detail::unfold_row(w, detail::input_row(w, plane, in_z, in_y), tap % w.taps[2], to);
        }
    }
  });
}

/// Pools: `combine` (a maximum, a sum) over the taps inside the input, from `first` on. Calls put(plane, 0, first output,
/// outputs of the row, results, taps), where taps holds how many lay inside.
template <class T, class Combine, class Put>
void pool_planes(Team& team, const SlidingWindow& w, int64_t planes, const T* x, T first_value, Combine&& combine, Put&& put) {
  const int64_t rows = w.out[0] * w.out[1], work = w.out[2] * w.tap_count();
  team.parallel(planes * rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, work)), [&](int64_t begin, int64_t end) {
    const std::unique_ptr<T[]> results(new T[static_cast<size_t>(2 * w.out[2])]);
    T* const taps = results.get() + w.out[2];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i % rows;
      const T* plane = x + i / rows * w.in_count();
      std::fill(results.get(), taps, first_value);
      std::fill(taps, taps + w.out[2], T(0));
      for (int64_t tap = 0; tap < w.tap_count(); ++tap) {
        const T* from = detail::input_row(w, plane, w.at(0, row / w.out[1], tap / (w.taps[1] * w.taps[2])),
                                          w.at(1, row % w.out[1], tap / w.taps[2] % w.taps[1]));
        int64_t first, last;
        w.inside(tap % w.taps[2], first, last);
        if (!from) continue;
        from += w.at(2, first, tap % w.taps[2]);
        T *to = results.get() + first, *count = taps + first;
        const int64_t stride = w.stride[2];
        if (stride == 1) {
#pragma omp simd
          for (int64_t o = 0; o < last - first; ++o) to[o] = combine(to[o], from[o]), count[o] += 1;
        } else {
#pragma omp simd
          for (int64_t o = 0; o < last - first; ++o) to[o] = combine(to[o], from[o * stride]), count[o] += 1;
        }
      }
      put(i / rows, int64_t{0}, row * w.out[2], w.out[2], static_cast<const T*>(results.get()), static_cast<const T*>(taps));
    }
  });
}

/// Convolutions that read one channel each: filter m of `filters` a plane, f[plane * filters + m][tap]. Calls
/// put(plane, m, first output, outputs of the row, sums) for each row of outputs.
template <class T, class Put>
void convolve_planes(Team& team, const SlidingWindow& w, int64_t planes, int64_t filters, const T* x, const T* f, Put&& put) {
  const int64_t rows = w.out[0] * w.out[1], work = w.out[2] * w.tap_count();
  team.parallel(planes * filters * rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, work)), [&](int64_t begin, int64_t end) {
    const std::unique_ptr<T[]> sums(new T[static_cast<size_t>(w.out[2])]);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i % rows, filter = i / rows;
      const T *plane = x + filter / filters * w.in_count(), *weight = f + filter * w.tap_count();
      std::fill(sums.get(), sums.get() + w.out[2], T(0));
      for (int64_t tap = 0; tap < w.tap_count(); ++tap) {
        const T* from = detail::input_row(w, plane, w.at(0, row / w.out[1], tap / (w.taps[1] * w.taps[2])),
                                          w.at(1, row % w.out[1], tap / w.taps[2] % w.taps[1]));
        int64_t first, last;
        w.inside(tap % w.taps[2], first, last);
        if (!from) continue;
        from += w.at(2, first, tap % w.taps[2]);
        const T factor = weight[tap];
        T* to = sums.get() + first;
        if (w.stride[2] == 1) {
#pragma omp simd
          for (int64_t o = 0; o < last - first; ++o) to[o] += factor * from[o];
        } else {
#pragma omp simd
          for (int64_t o = 0; o < last - first; ++o) to[o] += factor * from[o * w.stride[2]];
        }
      }
      put(filter / filters, filter % filters, row * w.out[2], w.out[2], static_cast<const T*>(sums.get()));
    }
  });
}

}  // namespace weft
