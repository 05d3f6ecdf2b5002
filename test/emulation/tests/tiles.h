// The tiles that the compiler chooses from, and elements to multiply.
#pragma once
#include <vector>

#include "weft/tensor_cores.h"

/// Tiles of one size: by threads, and for 16-bit floats by warps.
template <int M, int N, int ThreadM, int ThreadN, int WarpM, int WarpN>
struct Tiles {
  static constexpr int kM = M, kN = N;
  using Threads = weft::ProductTile<M, N, ThreadM, ThreadN>;
  template <class T>
  using Warps = weft::TensorTile<T, M, N, WarpM, WarpN>;
};

template <class F>
void for_each_tiles(F&& f) {
  f(Tiles<16, 64, 4, 2, 16, 16>());
  f(Tiles<32, 64, 4, 4, 16, 32>());
  f(Tiles<64, 64, 8, 4, 32, 32>());
  f(Tiles<128, 128, 8, 8, 64, 32>());
}

/// Exact in every type.
template <class T>
std::vector<T> values(int64_t count) {
  std::vector<T> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(T(float(i * 7 % 23) / 16 - 0.6875f));
  return out;
}
