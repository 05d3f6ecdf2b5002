// Tiles of products and convolutions on a device.
#include <algorithm>

#include "passes/strategy/strategy_rules.h"

namespace weftc {

static constexpr Tile kTiles[] = {
    {128, 128, 8, 8, 64, 32}, {64, 64, 8, 4, 32, 32}, {32, 64, 4, 4, 16, 32}, {16, 64, 4, 2, 16, 16}};

std::vector<std::vector<int64_t>> tile_extents() {
  std::vector<std::vector<int64_t>> extents;
  for (const Tile& tile : kTiles) extents.push_back({tile.m, tile.n});
  for (const int64_t tile : kWinogradTiles) extents.push_back({tile, tile});
  return extents;
}

/// The fast memory of a tile: two buffers for each operand, padded as weft/device_product.h has them, or for elements
/// of two bytes weft/tensor_cores.h.
static int64_t shared_bytes(const Tile& tile, DType dtype) {
  const int64_t bytes = dtype_bytes(dtype);
  if (bytes == 2) return 2 * bytes * (tile.m * (32 + 8) + 32 * (tile.n + 8));
  return 2 * bytes * 16 * (tile.m + 4 + tile.n);
}

/// Why a tile cannot be computed; empty: it can. Doubles take twice as many registers. In the one kernel of a loop over
/// chunks, a tile has that kernel's threads and must fit into the shared memory of its products.
static std::string tile_refusal(const StrategyContext& context, const Tile& tile, DType dtype) {
  const bool is_double = dtype == DType::F64;
  if (is_double && tile.m >= 128) return "a tile of 128 rows of doubles does not fit into registers";
  const int64_t needed = shared_bytes(tile, dtype), room = context.target.shared_memory;
  if (room > 0 && needed > room)
    return format("a tile of {} takes {} bytes of shared memory, of which there are {}", dims_text({tile.m, tile.n}),
                  needed, room);
  if (context.use != KernelUse::InChunks) return "";
  const bool fits = tile.threads() == context.target.chunk_threads && (tile.m == 16 || (tile.m == 64 && !is_double));
  return fits ? "" : "the tile does not fit into the one kernel of a loop over chunks";
}

static std::optional<Tile> wanted_tile(const StrategyContext& context, DType dtype, std::string& why) {
  std::vector<std::string> known;
  for (const Tile& tile : kTiles) {
    known.push_back(dims_text({tile.m, tile.n}));
    if (context.tile != std::vector{tile.m, tile.n}) continue;
    why = tile_refusal(context, tile, dtype);
    return why.empty() ? std::optional(tile) : std::nullopt;
  }
  why = format("there is no tile of {}; there are: {}", dims_text(context.tile), join(known, ", "));
  return {};
}

std::optional<Tile> choose_tile(const StrategyContext& context, int64_t batch, int64_t rows, int64_t columns,
                                DType dtype, std::string& why) {
  if (!context.tile.empty()) return wanted_tile(context, dtype, why);
  const bool in_chunks = context.use == KernelUse::InChunks;
  const int64_t wanted = in_chunks ? context.target.resident_blocks : context.target.multiprocessors;
  for (const Tile& tile : kTiles) {
    const int64_t count = batch * ((rows + tile.m - 1) / tile.m) * ((columns + tile.n - 1) / tile.n);
    if (tile_refusal(context, tile, dtype).empty() && 2 * rows > tile.m && count >= wanted) return tile;
  }
  const Tile& smallest = std::end(kTiles)[-1];
  why = tile_refusal(context, smallest, dtype);
  return why.empty() ? std::optional(smallest) : std::nullopt;
}

}  // namespace weftc
