// Products on a device in tiles (weft/device_product.h): which tile a block takes, and what is done with its sums.
#pragma once
#include "backend/epilogue.h"

namespace weftc {

/// "weft::ProductTile<16, 64, 4, 2>"; of 16-bit floats "weft::TensorTile<weft::half, 16, 64, 16, 16>". The kernel's
/// launch covers `count` tiles.
std::string tile_text(KernelContext& context, const Tile& tile, int64_t count, DType dtype);
/// How many tiles so many products of so many rows and columns are.
int64_t tiles_of(const Tile& tile, int64_t batch, int64_t rows, int64_t columns);

/// What the lambdas of a product in tiles call a matrix of the batch, a row and a column of the result, and k.
struct TileIndex {
  explicit TileIndex(Names& names)
      : batch(names.unique("batch")), m(names.unique("m")), n(names.unique("n")), k(names.unique("k")) {}
  const std::string batch, m, n, k;
};

/// The call with a lambda as its last argument, which takes a sum by batch, row and column, and computes what is behind
/// the contraction. `call` has no closing parenthesis.
Statements put_sums(KernelContext& context, ValueId root, const Epilogue& behind, const std::string& call,
                    const TileIndex& at);

}  // namespace weftc
