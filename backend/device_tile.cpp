#include "backend/device_tile.h"

#include <algorithm>

namespace weftc {

std::string Tile::text(DType dtype) const {
  const bool by_warps = is_16_bit_float(dtype);
  std::vector<std::string> texts;
  if (by_warps) texts.push_back(memory_type(dtype));
  for (int64_t n : {m, n, by_warps ? warp_m : thread_m, by_warps ? warp_n : thread_n})
    texts.push_back(std::to_string(n));
  return (by_warps ? "weft::TensorTile<" : "weft::ProductTile<") + join(texts, ", ") + ">";
}

/// In the kernel of a loop over chunks a tile has the kernel's threads, and fits into what its products share.
static bool is_for_chunks(const Tile& tile, DType dtype) {
  return tile.threads() == kChunkThreads && (tile.m == 16 || (tile.m == 64 && dtype != DType::F64));
}

Tile choose_tile(KernelContext& context, const Tiled& product, DType dtype) {
  constexpr Tile kTiles[] = {
      {128, 128, 8, 8, 64, 32}, {64, 64, 8, 4, 32, 32}, {32, 64, 4, 4, 16, 32}, {16, 64, 4, 2, 16, 16}};
  constexpr int64_t kMultiprocessors = 132;
  const int64_t wanted = context.is_in_chunks() ? kMostPeerBlocks : kMultiprocessors;
  const auto count = [&](const Tile& tile) {
    return product.batch * ((product.rows + tile.m - 1) / tile.m) * ((product.columns + tile.n - 1) / tile.n);
  };
  Tile best = std::end(kTiles)[-1];
  for (const Tile& tile : kTiles) {
    const bool has_registers = dtype != DType::F64 || tile.m < 128;  // doubles take twice as many
    const bool has_room = !context.is_in_chunks() || is_for_chunks(tile, dtype);
    if (!has_registers || !has_room || 2 * product.rows <= tile.m || count(tile) < wanted) continue;
    best = tile;
    break;
  }
  context.cover(count(best), best.threads());
  return best;
}

std::vector<std::string> put_sums(KernelContext& context, ValueId root, const Epilogue& behind,
                                  const std::string& call) {
  Attempt attempt;
  Elements elements(context, attempt);
  LoopScopes& scopes = elements.scopes;
  const std::string sum = scopes.names.unique(std::string(last_component(context.body.value(root).name)) + "_sum");
  Scope put(&scopes.root, call + ", [&]([[maybe_unused]] int64_t batch, [[maybe_unused]] int64_t m, int64_t n, " +
                              compute_type(context.body.type(root).dtype) + " " + sum + ") {");
  put.close = "});";
  put.uniform = false;
  scopes.lanes = Lanes::Thread;
  scopes.floor = scopes.current = &put;
  for (const char* variable : {"batch", "m", "n"}) scopes.own(variable, &put);
  behind.write(elements, sum);
  put.finish();
  return scopes.root.lines;
}

}  // namespace weftc
