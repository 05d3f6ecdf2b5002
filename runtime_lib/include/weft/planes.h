// Sliding windows over planes for host kernels: unfolding for products of matrices, pools, convolutions.
#pragma once
#include <algorithm>
#include <cstdint>

#include "weft/scratch.h"
#include "weft/sliding_window.h"
#include "weft/sum_type.h"
#include "weft/team.h"

namespace weft {

namespace detail {
template <class T>
inline const T* input_row(const SlidingWindow& w, const T* plane, int64_t z, int64_t y) {
  const bool held = z >= 0 && z < w.in[0] && y >= 0 && y < w.in[1];
  return held ? plane + (z * w.in[1] + y) * w.in[2] : nullptr;
}
/// `count` neighbouring outputs of one row, for all channels and taps, 16 elements apart.
template <class T>
inline void unfold_run(const SlidingWindow& w, int64_t channels, const T* x, int64_t output, int64_t count, T* to) {
  const int64_t column = output % w.out[2], row = output / w.out[2], stride = w.stride[2];
  for (int64_t channel = 0; channel < channels; ++channel)
    for (int64_t tz = 0; tz < w.taps[0]; ++tz)
      for (int64_t ty = 0; ty < w.taps[1]; ++ty) {
        const T* from =
            input_row(w, x + channel * w.in_count(), w.at(0, row / w.out[1], tz), w.at(1, row % w.out[1], ty));
        for (int64_t tap = 0; tap < w.taps[2]; ++tap, to += 16) {
          const int64_t at = w.at(2, column, tap), after = at + (count - 1) * stride;
          if (from && at >= 0 && after < w.in[2]) {
            if (stride == 1 && count == 16)
              std::copy(from + at, from + at + 16, to);
            else
              for (int64_t o = 0; o < count; ++o) to[o] = from[at + o * stride];
            continue;
          }
          for (int64_t o = 0; o < count; ++o) {
            const int64_t place = at + o * stride;
            to[o] = from && place >= 0 && place < w.in[2] ? from[place] : T(0);
          }
        }
      }
}
}  // namespace detail

/// Unfolds `channels` planes x[channel][input] into panels of 16 outputs: columns[output / 16][channel][tap][16], the
/// layout of a packed second operand. Columns after the last output are zero. It writes only `count` panels from panel
/// `first_panel` on.
template <class T>
void unfold(Team& team, const SlidingWindow& w, int64_t channels, const T* x, int64_t first_panel, int64_t count,
            T* columns) {
  constexpr int64_t kWidth = 16;
  const int64_t taps = w.tap_count(), outputs = w.out_count(), depth = channels * taps;
  team.parallel(count, std::max<int64_t>(1, 1024 / std::max<int64_t>(1, depth)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t panel = first_panel + i;
      T* const to = columns + i * depth * kWidth;
      const int64_t stop = std::min(outputs, (panel + 1) * kWidth);
      if (stop < (panel + 1) * kWidth) std::fill(to, to + depth * kWidth, T(0));
      for (int64_t first = panel * kWidth, last; first < stop; first = last) {
        last = std::min(stop, (first / w.out[2] + 1) * w.out[2]);
        detail::unfold_run(w, channels, x, first, last - first, to + first % kWidth);
      }
    }
  });
}

namespace detail {
/// Reduces a sequence of rows of `count` elements with `combine`. Very many are combined in parts, so that sums keep
/// their digits (weft/sum_type.h).
template <class T>
class InParts {
 public:
  InParts(int64_t count, int64_t most) : count_(count), part_(most > kAddedInTurn ? count : 0) {}
  /// Calls add(i, to) for each i below `total`, which combines element i into `to`. The result is in `all`.
  template <class Combine, class Add>
  void run(int64_t total, T identity, const Combine& combine, T* all, const Add& add) {
    std::fill_n(all, count_, identity);
    for (int64_t i = 0; i < std::min(total, kAddedInTurn); ++i) add(i, all);
    for (int64_t first = kAddedInTurn; first < total; first += kAddedInTurn) {
      T* const part = part_.get();
      std::fill_n(part, count_, identity);
      for (int64_t i = first; i < std::min(total, first + kAddedInTurn); ++i) add(i, part);
#pragma omp simd
      for (int64_t o = 0; o < count_; ++o) all[o] = combine(all[o], part[o]);
    }
  }

 private:
  const int64_t count_;
  const Scratch<T> part_;
};
}  // namespace detail

/// Pools: `combine` (a maximum, a sum) over the taps inside the input, from `identity` on; first along each row, then
/// across rows. Calls put(plane, 0, first output, outputs of the row, results, taps), where taps holds how many lay
/// inside. Each thread puts by a copy, as TilePut does.
template <class T, class Combine, class Put>
void pool_planes(Team& team, const SlidingWindow& w, int64_t planes, const T* x, T identity, Combine&& combine,
                 Put&& put) {
  const int64_t in_rows = w.in[0] * w.in[1], width = w.out[2], stride = w.stride[2];
  const int64_t work = in_rows * width * w.taps[2] + w.out_count() * w.taps[0] * w.taps[1];
  team.parallel(planes, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, work)), [&](int64_t begin, int64_t end) {
    const auto own_put = put;
    const Scratch<T> memory((in_rows + 3) * width);
    T *const along = memory.get(), *const result = along + in_rows * width, *const count = result + width,
             *const taps = count + width;
    detail::InParts<T> along_rows(in_rows * width, w.taps[2]), across_rows(width, w.taps[0] * w.taps[1]);
    std::fill(count, count + width, T(0));
    for (int64_t tap = 0; tap < w.taps[2]; ++tap) {
      int64_t first, last;
      w.inside(tap, first, last);
      for (int64_t o = first; o < last; ++o) count[o] += 1;
    }
    for (int64_t plane = begin; plane < end; ++plane) {
      along_rows.run(w.taps[2], identity, combine, along, [&](int64_t tap, T* all) {
        int64_t first, last;
        w.inside(tap, first, last);
        for (int64_t row = 0; row < in_rows; ++row) {
          const T* from = x + (plane * in_rows + row) * w.in[2] + w.at(2, first, tap);
          T* to = all + row * width + first;
#pragma omp simd
          for (int64_t o = 0; o < last - first; ++o) to[o] = combine(to[o], from[o * stride]);
        }
      });
      for (int64_t row = 0; row < w.out[0] * w.out[1]; ++row) {
        T rows = 0;
        across_rows.run(w.taps[0] * w.taps[1], identity, combine, result, [&](int64_t tap, T* all) {
          const int64_t z = w.at(0, row / w.out[1], tap / w.taps[1]), y = w.at(1, row % w.out[1], tap % w.taps[1]);
          if (z < 0 || z >= w.in[0] || y < 0 || y >= w.in[1]) return;
          rows += 1;
          const T* from = along + (z * w.in[1] + y) * width;
#pragma omp simd
          for (int64_t o = 0; o < width; ++o) all[o] = combine(all[o], from[o]);
        });
        for (int64_t o = 0; o < width; ++o) taps[o] = rows * count[o];
        own_put(plane, int64_t{0}, row * width, width, static_cast<const T*>(result), static_cast<const T*>(taps));
      }
    }
  });
}

namespace detail {
/// The sums of a row of outputs over very many taps. Sums over some of the taps are added up in a wider type
/// (sum_type.h).
template <class T>
class TapSums {
 public:
  TapSums(int64_t outputs, int64_t taps)
      : outputs_(outputs), taps_(taps), of_part_(outputs), of_all_(taps > kMostInTurn ? outputs : 0) {}
  void start() {
    in_part_ = 0;
    std::fill_n(of_part_.get(), outputs_, T(0));
    if (taps_ > kMostInTurn) std::fill_n(of_all_.get(), outputs_, 0);
  }
  /// The sums to which the products of the next tap are added.
  T* of_next_tap() {
    if (in_part_++ == kMostInTurn) finish_part(), in_part_ = 1;
    return of_part_.get();
  }
  const T* finish() {
    if (taps_ <= kMostInTurn) return of_part_.get();
    finish_part();
#pragma omp simd
    for (int64_t o = 0; o < outputs_; ++o) of_part_[o] = T(of_all_[o]);
    return of_part_.get();
  }

 private:
  static constexpr int64_t kMostInTurn = 2 * kAddedInTurn;
  void finish_part() {
#pragma omp simd
    for (int64_t o = 0; o < outputs_; ++o) of_all_[o] += of_part_[o], of_part_[o] = 0;
  }
  const int64_t outputs_, taps_;
  int64_t in_part_ = 0;  // taps whose products it holds
  const Scratch<T> of_part_;
  const Scratch<SumOfSums<T>> of_all_;
};
/// The outputs first .. last of a row whose tap lies inside the image. `shift`: the position of output 0's tap.
struct TapReach {
  int64_t first, last, shift;
};
/// Adds the products of one row of taps to the sums of a row of outputs.
template <class T>
inline void add_tap_row(const SlidingWindow& w, const TapReach* reach, const T* from, const T* weight,
                        TapSums<T>& sums) {
  for (int64_t tap = 0; tap < w.taps[2]; ++tap) {
    const int64_t first = reach[tap].first, count = reach[tap].last - first;
    const T* const at = from + first * w.stride[2] + reach[tap].shift;
    const T factor = weight[tap];
    T* const to = sums.of_next_tap() + first;
    if (w.stride[2] == 1) {
#pragma omp simd
      for (int64_t o = 0; o < count; ++o) to[o] += factor * at[o];
    } else {
#pragma omp simd
      for (int64_t o = 0; o < count; ++o) to[o] += factor * at[o * w.stride[2]];
    }
  }
}
}  // namespace detail

/// Convolutions that read one channel each: filter m of `filters` a plane, f[plane * filters + m][tap]. Calls
/// put(plane, m, first output, outputs of the row, sums) for each row of outputs.
template <class T, class Put>
void convolve_planes(Team& team, const SlidingWindow& w, int64_t planes, int64_t filters, const T* x, const T* f,
                     Put&& put) {
  const int64_t rows = w.out[0] * w.out[1], work = w.out[2] * w.tap_count();
  team.parallel(planes * filters * rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, work)),
                [&](int64_t begin, int64_t end) {
                  const auto own_put = put;
                  detail::TapSums<T> sums(w.out[2], w.tap_count());
                  const Scratch<detail::TapReach> reach(w.taps[2]);
                  for (int64_t tap = 0; tap < w.taps[2]; ++tap) {
                    reach[tap].shift = w.at(2, 0, tap);
                    w.inside(tap, reach[tap].first, reach[tap].last);
                  }
                  for (int64_t i = begin; i < end; ++i) {
                    const int64_t row = i % rows, filter = i / rows;
                    const T *plane = x + filter / filters * w.in_count(), *weight = f + filter * w.tap_count();
                    const TapRange z = taps_inside(w, 0, row / w.out[1]), y = taps_inside(w, 1, row % w.out[1]);
                    sums.start();
                    for (int64_t tz = z.first; tz < z.last; ++tz)
                      for (int64_t ty = y.first; ty < y.last; ++ty)
                        detail::add_tap_row(
                            w, reach.get(),
                            detail::input_row(w, plane, w.at(0, row / w.out[1], tz), w.at(1, row % w.out[1], ty)),
                            weight + (tz * w.taps[1] + ty) * w.taps[2], sums);
                    own_put(filter / filters, filter % filters, row * w.out[2], w.out[2], sums.finish());
                  }
                });
}

}  // namespace weft
