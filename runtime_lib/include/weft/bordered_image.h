// Images as direct convolutions read them: with channels innermost and a border, so that no tile needs bounds checks.
// They are copied from images with channels innermost, or from planes.
#pragma once
#include <algorithm>
#include <cstdint>

#include "weft/sliding_window.h"
#include "weft/team.h"

namespace weft {

/// Images whose channels lie in planes, [batch][groups * channels][z][y][x]. They are read once, when the bordered copy
/// is made.
template <class T>
struct Planes {
  const T* data;
};

/// The same for bytes, four of which are one element. Zeros fill an incomplete one.
template <class Element>
struct BytePlanes {
  const Element* data;
  int64_t channels;  // of all groups
};

namespace detail {

/// The image that tiles read. Its extents are only as large as the outputs reach.
struct BorderedImage {
  int64_t extent[3], channels;
  constexpr int64_t count() const { return extent[0] * extent[1] * extent[2] * channels; }
};

/// Whether a window reaches outside of the image.
constexpr bool reads_border(const SlidingWindow& w) {
  for (int d = 0; d < 3; ++d)
    if (w.pad[d] > 0 || w.at(d, w.out[d] - 1, w.taps[d] - 1) >= w.in[d]) return true;
  return false;
}

constexpr BorderedImage bordered_image(const SlidingWindow& w, const Convolution& c) {
  BorderedImage image{{}, c.groups * c.channels};
  for (int d = 0; d < 3; ++d)
    image.extent[d] = reads_border(w) ? w.at(d, w.out[d] - 1, w.taps[d] - 1) + w.pad[d] + 1 : w.in[d];
  return image;
}

/// Images that are copied and computed at a time: small ones together, so that the filters are read once for them.
constexpr int64_t images_at_a_time(const SlidingWindow& w, const Convolution& c) {
  constexpr int64_t kMost = int64_t{1} << 20;
  return std::clamp<int64_t>(kMost / std::max<int64_t>(1, bordered_image(w, c).count()), 1,
                             std::max<int64_t>(1, c.batch));
}

/// Puts `count` points of an image with their channels side by side.
template <class T>
inline void put_points(const T* from, int64_t count, int64_t channels, int64_t, T* out) {
  std::copy(from, from + count * channels, out);
}
template <int64_t kChannels, class T>
inline void put_points_of(const T* from, int64_t count, int64_t plane, T* out) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i)
    for (int64_t c = 0; c < kChannels; ++c) out[i * kChannels + c] = from[c * plane + i];
}
template <class T>
inline void put_points(Planes<T> from, int64_t count, int64_t channels, int64_t plane, T* out) {
  if (channels == 1) return put_points_of<1>(from.data, count, plane, out);
  if (channels == 3) return put_points_of<3>(from.data, count, plane, out);
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t i = 0; i < count; ++i) out[i * channels + c] = from.data[c * plane + i];
}

/// Stores kCount bytes of each point as one element, `step` elements after the previous point's.
template <int64_t kCount, class Element, class Quad>
[[gnu::always_inline]] inline void put_quads_of(const Element* from, int64_t count, int64_t plane, int64_t step,
                                                Quad* out) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits = 0;
    for (int64_t c = 0; c < kCount; ++c) bits |= uint32_t{uint8_t(from[c * plane + i])} << 8 * c;
    out[i * step].bits = bits;
  }
}
template <int64_t kCount, class Element, class Quad>
inline void put_quads(const Element* from, int64_t count, int64_t plane, int64_t step, Quad* out) {
  if (step == 1) return put_quads_of<kCount>(from, count, plane, 1, out);  // g++ makes vectors of known steps only
  put_quads_of<kCount>(from, count, plane, step, out);
}
template <class Element, class Quad>
inline void put_points(BytePlanes<Element> from, int64_t count, int64_t channels, int64_t plane, Quad* out) {
  for (; from.channels > 0; from.channels -= 4, from.data += 4 * plane, ++out) {
    if (from.channels == 1) return put_quads<1>(from.data, count, plane, channels, out);
    if (from.channels == 2) return put_quads<2>(from.data, count, plane, channels, out);
    if (from.channels == 3) return put_quads<3>(from.data, count, plane, channels, out);
    put_quads<4>(from.data, count, plane, channels, out);
  }
}

/// Where image `number` begins, or its point at `at`.
template <class T>
inline const T* image_at(const T* x, int64_t number, int64_t at, int64_t points, int64_t channels) {
  return x + (number * points + at) * channels;
}
template <class T>
inline Planes<T> image_at(Planes<T> x, int64_t number, int64_t at, int64_t points, int64_t channels) {
  return {x.data + number * points * channels + at};
}
template <class Element>
inline BytePlanes<Element> image_at(BytePlanes<Element> x, int64_t number, int64_t at, int64_t points, int64_t) {
  return {x.data + number * points * x.channels + at, x.channels};
}

/// One row of the bordered image, `outside` outside of the input.
template <class T, class X>
inline void copy_row(const SlidingWindow& w, const BorderedImage& to, int64_t z, int64_t y, const X& x, int64_t number,
                     T* out, T outside) {
  const int64_t from_z = z - w.pad[0], from_y = y - w.pad[1], channels = to.channels;
  const bool is_inside = from_z >= 0 && from_z < w.in[0] && from_y >= 0 && from_y < w.in[1];
  const int64_t before = is_inside ? std::min(to.extent[2], w.pad[2]) : to.extent[2];
  const int64_t copied = std::min(to.extent[2] - before, w.in[2]);
  std::fill(out, out + before * channels, outside);
  if (!is_inside) return;
  const int64_t at = (from_z * w.in[1] + from_y) * w.in[2], points = w.in_count();
  put_points(image_at(x, number, at, points, channels), copied, channels, points, out + before * channels);
  std::fill(out + (before + copied) * channels, out + to.extent[2] * channels, outside);
}

template <class T, class X>
void add_border(Team& team, const SlidingWindow& w, const BorderedImage& to, int64_t images, const X& x, T* out,
                T outside = {}) {
  const int64_t rows = to.extent[0] * to.extent[1], row = to.extent[2] * to.channels;
  team.parallel(images * rows, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, row)),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i)
                    copy_row(w, to, i % rows / to.extent[1], i % to.extent[1], x, i / rows, out + i * row, outside);
                });
}

}  // namespace detail
}  // namespace weft
