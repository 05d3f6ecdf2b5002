// weft/device_top_k.h over the emulation: warps and blocks against sorting, several rounds, equal elements, NaN.
#include <doctest/doctest.h>

#include <random>

#include "../../runtime_lib/sorted_lines.h"
#include "device.h"
#include "weft/device_top_k.h"

using weft::Extreme;

namespace {

template <class T, Extreme kExtreme, bool kByWarp>
__global__ void choose(const T* x, T* elements, int64_t* indices, int64_t lines, int64_t length, int64_t k) {
  const int64_t first = kByWarp ? weft::warp() : blockIdx.x, step = kByWarp ? weft::warps() : gridDim.x;
  for (int64_t line = first; line < lines; line += step) {
    const auto load = [=](int64_t i) { return x[line * length + i]; };
    const auto put = [=](int64_t j, T element, int64_t at) {
      elements[line * k + j] = element;
      indices[line * k + j] = at;
    };
    if constexpr (kByWarp)
      weft::top_k_by_warp<T, kExtreme>(length, k, load, put);
    else
      weft::top_k_by_block<T, kExtreme>(length, k, load, put);
  }
}

template <class T, Extreme kExtreme, bool kByWarp>
void check_lines(const std::vector<T>& x, int64_t lines, int64_t k, unsigned threads) {
  const int64_t length = int64_t(x.size()) / lines;
  CAPTURE(length);
  CAPTURE(k);
  CAPTURE(threads);
  const Buffer<T> in(x), elements(size_t(lines * k));
  const Buffer<int64_t> indices(size_t(lines * k));
  const Stream stream;
  CHECK(run(stream.handle, choose<T, kExtreme, kByWarp>, 2, threads, in.at, elements.at, indices.at, lines, length,
            k) == cudaSuccess);
  stream.wait();
  std::vector<int64_t> expected;
  for (int64_t line = 0; line < lines; ++line) {
    const std::vector<T> one(x.begin() + line * length, x.begin() + (line + 1) * length);
    const std::vector<int64_t> order = sorted_indices<T, kExtreme>(one);
    expected.insert(expected.end(), order.begin(), order.begin() + k);
  }
  CHECK(indices.read() == expected);
  const std::vector<T> read = elements.read();
  for (size_t i = 0; i < read.size(); ++i) {
    const T element = x[size_t(int64_t(i) / k * length + expected[i])];
    CHECK((read[i] == element || (element != element && read[i] != read[i])));
  }
}

/// Lines of numbers out of `range`: the fewer there are, the more are equal.
template <class T>
std::vector<T> numbers(int64_t count, unsigned range) {
  std::mt19937 draws(11);
  std::vector<T> x;
  for (int64_t i = 0; i < count; ++i) x.push_back(T(int64_t(draws() % range) - int64_t(range / 2)));
  return x;
}

}  // namespace

TEST_CASE_TEMPLATE("device top-k: few elements by a warp", T, float, double, int32_t, uint64_t, uint8_t) {
  for (const int64_t length : {1, 5, 32, 100})
    for (const unsigned range : {2u, 5000u}) {
      const std::vector<T> x = numbers<T>(5 * length, range);
      check_lines<T, Extreme::Largest, true>(x, 5, std::min<int64_t>(3, length), 64);
      check_lines<T, Extreme::Smallest, true>(x, 5, std::min<int64_t>(3, length), 64);
    }
}

TEST_CASE_TEMPLATE("device top-k: many elements by a block", T, float, double, int16_t, int64_t, uint32_t) {
  for (const auto& [length, k] : {std::pair<int64_t, int64_t>{1, 1}, {70, 70}, {300, 41}, {2000, 1700}})
    for (const unsigned range : {1u, 3u, 1u << 30}) {
      const std::vector<T> x = numbers<T>(3 * length, range);
      check_lines<T, Extreme::Largest, false>(x, 3, k, 64);
      check_lines<T, Extreme::Smallest, false>(x, 3, k, 128);
    }
}

TEST_CASE("device top-k: NaN is the largest, zeros are equal") {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {0, -0.0f, -inf, nan, 1, inf, -0.0f, 0, -nan, -1};
  check_lines<float, Extreme::Largest, true>(x, 1, 8, 32);
  check_lines<float, Extreme::Smallest, true>(x, 1, 10, 32);
  check_lines<float, Extreme::Largest, false>(x, 1, 10, 32);
  check_lines<float, Extreme::Smallest, false>(x, 1, 4, 32);
}
