// Tiles of products and convolutions on a device.
#include "passes/strategy/strategy_rules.h"

namespace weftc {

/// In the kernel of a loop over chunks a tile has the kernel's threads, and fits into what its products share.
static bool is_for_chunks(const Target& target, const Tile& tile, DType dtype) {
  return tile.threads() == target.chunk_threads && (tile.m == 16 || (tile.m == 64 && dtype != DType::F64));
}

Tile choose_tile(const StrategyContext& context, int64_t batch, int64_t rows, int64_t columns, DType dtype) {
  constexpr Tile kTiles[] = {
      {128, 128, 8, 8, 64, 32}, {64, 64, 8, 4, 32, 32}, {32, 64, 4, 4, 16, 32}, {16, 64, 4, 2, 16, 16}};
  const bool in_chunks = context.use == KernelUse::InChunks;
  const int64_t wanted = in_chunks ? context.target.resident_blocks : context.target.multiprocessors;
  for (const Tile& tile : kTiles) {
    const bool has_registers = dtype != DType::F64 || tile.m < 128;  // doubles take twice as many
    const bool has_room = !in_chunks || is_for_chunks(context.target, tile, dtype);
    const int64_t count = batch * ((rows + tile.m - 1) / tile.m) * ((columns + tile.n - 1) / tile.n);
    if (has_registers && has_room && 2 * rows > tile.m && count >= wanted) return tile;
  }
  return std::end(kTiles)[-1];
}

}  // namespace weftc
