// Products on a device in tiles. Each block computes one tile of the result at a time from tiles of the operands in
// shared memory (weft/device_product.h, weft/tensor_cores.h). Matrix products and convolutions share this text:
//
//   weft::multiply<weft::ProductTile<16, 64, 4, 2>, ...>(..., [&](int64_t batch, int64_t m, int64_t n, float y_sum) {
//     y[m * 768 + n] = y_sum + bias[n];
//   });
#pragma once
#include "backend/epilogue.h"

namespace weftc {

/// The C++ type of a tile: "weft::ProductTile<16, 64, 4, 2>", or for 16-bit floats, whose products use the tensor
/// cores, "weft::TensorTile<weft::half, 16, 64, 16, 16>". Also makes the kernel's launch cover `count` tiles, one for
/// each block, with the threads of the tile.
std::string tile_text(KernelContext& context, const Tile& tile, int64_t count, DType dtype);
/// The number of tiles of `batch` products with `rows` x `columns` results each. Partial tiles at the edges count as
/// whole ones.
int64_t tiles_of(const Tile& tile, int64_t batch, int64_t rows, int64_t columns);

/// Variables in the lambdas of a tiled product: a matrix of the batch, a row and a column of the result, and k.
struct TileIndex {
  explicit TileIndex(Names& names)
      : batch(names.unique("batch")), m(names.unique("m")), n(names.unique("n")), k(names.unique("k")) {}
  const std::string batch, m, n, k;
};

/// The call with a lambda as its last argument, which takes a sum by batch, row and column and computes the epilogue.
/// `call` has no closing parenthesis.
Statements put_sums(KernelContext& context, ValueId root, const Epilogue& after, const std::string& call,
                    const TileIndex& at);

}  // namespace weftc
