// The text of a device tile and of the lambda that takes its sums. The lambda runs on one thread for one
// element, so that its statements are those of a nest whose lanes are single threads.
#include "backend/device_tile.h"

namespace weftc {

std::string tile_text(KernelContext& context, const Tile& tile, int64_t count, DType dtype) {
  context.cover(count, tile.threads());
  const bool by_warps = is_16_bit_float(dtype);
  std::vector<std::string> texts;
  if (by_warps) context.need_header("tensor_cores.h"), texts.push_back(memory_type(dtype));
  for (int64_t n : {tile.m, tile.n, by_warps ? tile.warp_m : tile.thread_m, by_warps ? tile.warp_n : tile.thread_n})
    texts.push_back(std::to_string(n));
  return (by_warps ? "weft::TensorTile<" : "weft::ProductTile<") + join(texts, ", ") + ">";
}

int64_t tiles_of(const Tile& tile, int64_t batch, int64_t rows, int64_t columns) {
  return batch * ((rows + tile.m - 1) / tile.m) * ((columns + tile.n - 1) / tile.n);
}

Statements put_sums(KernelContext& context, ValueId root, const Epilogue& after, const std::string& call,
                    const TileIndex& at) {
  Cuts cuts;
  Elements elements(context, cuts);
  LoopScopes& scopes = elements.scopes;
  const std::string sum = scopes.names.unique(std::string(last_component(context.body.value(root).name)) + "_sum");
  Scope put(&scopes.root,
            Callback{call + ", [&]([[maybe_unused]] int64_t " + at.batch + ", [[maybe_unused]] int64_t " + at.m +
                     ", int64_t " + at.n + ", " + compute_type(context.body.type(root).dtype) + " " + sum + ") {"});
  put.uniform = false;
  scopes.lanes = Lanes::Thread;
  scopes.floor = scopes.current = &put;
  for (const std::string& variable : {at.batch, at.m, at.n}) scopes.own(variable, &put);
  after.write(elements, sum);
  put.finish();
  return scopes.root.take_body();
}

}  // namespace weftc
