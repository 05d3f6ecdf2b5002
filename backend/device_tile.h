// Products on a device in tiles (weft/device_product.h): which tile a block takes, and what is done with its sums.
#pragma once
#include "backend/epilogue.h"

namespace weftc {

/// Rows and columns of a tile, of one thread, and of one warp where tensor cores compute it.
struct Tile {
  int64_t m, n, thread_m, thread_n, warp_m, warp_n;
  int64_t threads() const { return m / thread_m * (n / thread_n); }
  /// "weft::ProductTile<16, 64, 4, 2>"; of 16-bit floats "weft::TensorTile<weft::half, 16, 64, 16, 16>"
  std::string text(DType dtype) const;
};

/// How many products of how many rows and columns.
struct Tiled {
  int64_t batch, rows, columns;
};

/// The largest tile that rows fill by more than half, and of which there is one for each multiprocessor of a large
/// device, or each block of a loop over chunks; else the smallest. The kernel's launch covers it.
Tile choose_tile(KernelContext& context, const Tiled& product, DType dtype);

/// The call with a lambda as its last argument, which takes a sum by batch, row m and column n, and computes what is
/// behind the contraction. `call` has no closing parenthesis.
std::vector<std::string> put_sums(KernelContext& context, ValueId root, const Epilogue& behind,
                                  const std::string& call);

}  // namespace weftc
