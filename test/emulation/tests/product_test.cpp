// weft/device_product.h over the emulation: every tile, any grid, ragged edges.
#include <doctest/doctest.h>

#include "device.h"
#include "tiles.h"

using weft::Product;

namespace {

const Product kProducts[] = {{1, 16, 64, 16}, {3, 5, 70, 1}, {2, 33, 7, 37}, {1, 140, 130, 50}, {4, 1, 1, 16}};

/// left[batch][row][k] times right[batch][column][k], the second one transposed as it is read.
template <class Tile, class Sum, class T>
__global__ void multiply(Product product, const T* left, const T* right, Sum* y, int* puts) {
  const auto of_left = [&](int64_t batch, int64_t m, int64_t k) {
    return left[(batch * product.rows + m) * product.depth + k];
  };
  const auto of_right = [&](int64_t batch, int64_t k, int64_t n) {
    return right[(batch * product.columns + n) * product.depth + k];
  };
  weft::multiply<Tile, Sum>(product, of_left, of_right, [&](int64_t batch, int64_t m, int64_t n, Sum sum) {
    const int64_t at = (batch * product.rows + m) * product.columns + n;
    y[at] = sum;
    atomicAdd(puts + at, 1);
  });
}

/// By its definition, in double.
template <class T>
double multiplied(const Product& p, const std::vector<T>& left, const std::vector<T>& right, int64_t at) {
  const int64_t row = at / p.columns, column = row / p.rows * p.columns + at % p.columns;
  double sum = 0;
  for (int64_t k = 0; k < p.depth; ++k)
    sum += double(float(left[size_t(row * p.depth + k)])) * double(float(right[size_t(column * p.depth + k)]));
  return sum;
}

template <class Tile, class Sum, class T>
void check(const Product& p, unsigned blocks) {
  const std::vector<T> left = values<T>(p.batch * p.rows * p.depth), right = values<T>(p.batch * p.columns * p.depth);
  const size_t count = size_t(p.batch * p.rows * p.columns);
  const Buffer<T> left_at(left), right_at(right);
  const Buffer<Sum> y_at(count);
  const Buffer<int> puts_at(std::vector<int>(count, 0));
  const Stream stream;
  run(stream.handle, multiply<Tile, Sum, T>, blocks, Tile::kThreads, p, left_at.at, right_at.at, y_at.at, puts_at.at);
  stream.wait();
  const std::vector<Sum> y = y_at.read();
  int wrong = 0;
  for (size_t i = 0; i < count; ++i) wrong += !(std::abs(y[i] - multiplied(p, left, right, int64_t(i))) < 1e-4);
  CHECK(wrong == 0);
  CHECK(puts_at.read() == std::vector<int>(count, 1));
}

template <class Tiles>
void check_tiles(Tiles) {
  for (const Product& p : kProducts) {
    INFO("rows " << p.rows << ", tile " << Tiles::kM << " x " << Tiles::kN);
    for (unsigned blocks : {1u, 3u, 40u}) check<typename Tiles::Threads, float, float>(p, blocks);
    check<typename Tiles::template Warps<weft::half>, float, weft::half>(p, 5);
    check<typename Tiles::template Warps<weft::bfloat16>, float, weft::bfloat16>(p, 5);
    if constexpr (Tiles::kM < 128) check<typename Tiles::Threads, double, double>(p, 5);
  }
}

}  // namespace

TEST_CASE("device products: every tile against the definition") {
  for_each_tiles([](auto tiles) { check_tiles(tiles); });
}
