// Convolutions by minimal filtering against plain loops in double: every tile, odd extents, tails, threads, and the
// errors that winograd.h states.
#include "weft/winograd.h"

#include <doctest/doctest.h>

#include <cmath>

#include "../effort.h"
#include "plain_convolution.h"

using namespace weft;
using namespace windows;

namespace {

/// G of the paper, with rows for the points 0, 1, -1, (2, -2,) infinity.
const std::vector<std::vector<double>> kOfTwo = {{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}};
const std::vector<std::vector<double>> kOfFour = {{1. / 4, 0, 0},
                                                  {-1. / 6, -1. / 6, -1. / 6},
                                                  {-1. / 6, 1. / 6, -1. / 6},
                                                  {1. / 24, 1. / 12, 1. / 6},
                                                  {1. / 24, -1. / 12, 1. / 6},
                                                  {0, 0, 1}};

/// G g G^T of filters [filters][channels][3][3] as `convolve_winograd` takes them.
std::vector<float> packed_points(int tile, const Convolution& c, const std::vector<float>& filters) {
  const std::vector<std::vector<double>>& g = tile == 2 ? kOfTwo : kOfFour;
  const int64_t side = tile + 2, points = side * side;
  std::vector<float> packed(size_t((c.filters + 15) / 16 * points * c.channels * 16));
  for (int64_t n = 0; n < c.filters; ++n)
    for (int64_t channel = 0; channel < c.channels; ++channel)
      for (int64_t p = 0; p < points; ++p) {
        double sum = 0;
        for (int64_t tap = 0; tap < 9; ++tap)
          sum += g[size_t(p / side)][size_t(tap / 3)] * g[size_t(p % side)][size_t(tap % 3)] *
                 double(filters[size_t((n * c.channels + channel) * 9 + tap)]);
        packed[size_t(((n / 16 * points + p) * c.channels + channel) * 16 + n % 16)] = float(sum);
      }
  return packed;
}

/// The results of `convolve_winograd`, added to zeros, so that a result that is put twice shows.
template <int M>
std::vector<float> convolved(Team& team, const SlidingWindow& w, const Convolution& c, const std::vector<float>& x,
                             const std::vector<float>& packed) {
  std::vector<float> y(size_t(c.batch * w.out_count() * c.filters));
  convolve_winograd<M>(team, w, c, x.data(), packed.data(), [&](int64_t m, int64_t n0, auto width, const float* sums) {
    for (int64_t j = 0; j < width; ++j) y[size_t(m * c.filters + n0 + j)] += sums[j];
  });
  return y;
}

/// A window of 3 x 3 over an image of any size, with any padding that leaves an output.
SlidingWindow random_square(Numbers& numbers, int64_t most) {
  SlidingWindow w{{1, 1, 1}, {1, 1, 1}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}};
  for (int d = 1; d < 3; ++d) {
    const int64_t after = pick(numbers, 0, 3);
    w.pad[d] = pick(numbers, 0, 3);
    w.in[d] = std::max<int64_t>(pick(numbers, 1, most), 3 - w.pad[d] - after);
    w.out[d] = w.in[d] + w.pad[d] + after - 2;
  }
  return w;
}

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = larger(largest, std::fabs(value));
  return largest;
}

template <int M>
double share_of_error(Team& team, const SlidingWindow& w, const Convolution& c, Numbers& numbers) {
  const std::vector<float> x = draw<float>(numbers, c.batch * w.in_count() * c.channels);
  const std::vector<float> filters = draw<float>(numbers, c.filters * c.channels * 9);
  const std::vector<double> want = plain_convolution(w, c, x, filters);
  return largest_error(convolved<M>(team, w, c, x, packed_points(M, c, filters)), want) / largest_of(want);
}

}  // namespace

TEST_CASE("winograd: random layers keep the stated error") {
  Team team(3);
  Numbers numbers(7);
  double worst_of_four = 0, worst_of_two = 0;
  for (int i = 0; i < random_cases(200); ++i) {
    CAPTURE(i);
    const SlidingWindow window = random_square(numbers, i % 10 ? 14 : 30);
    const Convolution shape{pick(numbers, 1, 3), 1, 16 * pick(numbers, 1, i % 10 ? 3 : 6), pick(numbers, 1, 50)};
    worst_of_four = larger(worst_of_four, share_of_error<4>(team, window, shape, numbers));
    worst_of_two = larger(worst_of_two, share_of_error<2>(team, window, shape, numbers));
  }
  MESSAGE("F(4x4, 3x3) ", worst_of_four, ", F(2x2, 3x3) ", worst_of_two);
  CHECK(worst_of_four < 2e-5);
  CHECK(worst_of_two < 2e-6);
}

TEST_CASE("winograd: the bits do not depend on the threads, nor on the images beside") {
  Numbers numbers(8);
  const SlidingWindow window = random_square(numbers, 40);
  const Convolution shape{3, 1, 48, 35};
  const std::vector<float> x = draw<float>(numbers, shape.batch * window.in_count() * shape.channels);
  const std::vector<float> packed = packed_points(4, shape, draw<float>(numbers, shape.filters * shape.channels * 9));
  Team alone(1), three(3);
  const std::vector<float> y = convolved<4>(alone, window, shape, x, packed);
  CHECK(y == convolved<4>(three, window, shape, x, packed));
  const std::vector<float> last(x.end() - window.in_count() * shape.channels, x.end());
  const std::vector<float> of_last(y.end() - window.out_count() * shape.filters, y.end());
  CHECK(of_last == convolved<4>(three, window, {1, 1, 48, 35}, last, packed));
}

TEST_CASE("winograd: no image") {
  Team team(1);
  const SlidingWindow window{{1, 4, 4}, {1, 4, 4}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}};
  CHECK(convolved<2>(team, window, {0, 1, 16, 16}, {}, std::vector<float>(16 * 16 * 16)).empty());
}
