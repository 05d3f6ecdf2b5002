// Convolutions on a device as products through shared memory (weft/device_convolution.h): the block's tile is chosen
// here, what follows the convolution is computed where its sums are put. One filter a channel has nothing to share:
// that, and operands that do not lie row-major, are plain loops.
#include <algorithm>

#include "backend/epilogue.h"
#include "backend/kernel_text.h"
#include "backend/window_geometry.h"
#include "ir/op_def.h"

namespace weft {

namespace {

/// Filters and outputs of a tile, and of one thread.
struct Tile {
  int64_t m, n, thread_m, thread_n;
  int64_t threads() const { return m / thread_m * (n / thread_n); }
  int64_t count(const WindowGeometry& g) const {
    return g.groups * ((g.filters + m - 1) / m) * ((g.batch * g.outputs + n - 1) / n);
  }
};

/// The largest tile that filters fill by more than half, and of which there is one for each multiprocessor of a large
/// device; else the smallest.
Tile choose_tile(const WindowGeometry& g, DType dtype) {
  constexpr Tile kTiles[] = {{128, 128, 8, 8}, {64, 64, 8, 4}, {32, 64, 4, 4}, {16, 64, 4, 2}};
  constexpr int64_t kMultiprocessors = 132;
  for (const Tile& tile : kTiles) {
    const bool fits = dtype != DType::F64 || tile.m < 128;  // doubles take twice the registers
    if (fits && 2 * g.filters > tile.m && tile.count(g) >= kMultiprocessors) return tile;
  }
  return std::end(kTiles)[-1];
}

/// The address of an operand that lies row-major in memory, in the convolution's type: all of it, or a chunk.
std::optional<std::string> operand_address(KernelContext& context, ValueId value, DType dtype) {
  const Dims dims = context.dims(value);
  IndexList index;
  for (size_t d = 0; d < dims.size(); ++d) index.push_back(index_variable("x" + std::to_string(d), 0, dims[d] - 1));
  const std::optional<Load> load = load_of(context, value, index);
  if (!load) return {};
  const Formal& formal = context.kernel.formals[load->formal];
  IndexExpr first = load->offset;
  for (size_t d = 0; d < dims.size(); ++d) first = substitute(first, "x" + std::to_string(d), 0);
  if (!(load->offset == first + linear_index(index, dims)) || formal.type.dtype != dtype ||
      formal.packing.kind != Packing::Kind::RowMajor)
    return {};
  const std::string& name = context.formal_name(load->formal);
  return first == 0 ? name : name + " + " + first.text();
}

/// What the runtime counts in 32 bits.
bool is_small(const WindowGeometry& g) {
  constexpr int64_t kMost = int64_t{1} << 30;
  return g.channels * g.taps < kMost && g.channels * g.inputs < kMost && g.outputs < kMost &&
         g.filters * g.channels * g.taps < kMost;
}

/// The lambda that takes a sum, as the last argument of `call`.
std::vector<std::string> put_lines(KernelContext& context, ValueId root, const Epilogue& behind,
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

std::string list_text(std::initializer_list<int64_t> numbers) {
  std::vector<std::string> texts;
  for (int64_t n : numbers) texts.push_back(std::to_string(n));
  return join(texts, ", ");
}

}  // namespace

std::optional<std::vector<std::string>> write_device_convolution(KernelContext& context) {
  const ValueId root = contraction_of(context.body);
  if (!root || context.body.producer_op(root).kind != OpKind::Conv || !context.kernel.extents.empty()) return {};
  const Op& op = context.body.producer_op(root);
  const DType dtype = context.body.type(root).dtype;
  const std::optional<WindowGeometry> g = window_geometry(context, root);
  if (!g || !is_float(dtype) || !is_small(*g) || (g->channels == 1 && g->groups > 1)) return {};
  const std::optional<std::string> x = operand_address(context, op.inputs[0], dtype);
  const std::optional<std::string> w = operand_address(context, op.inputs[1], dtype);
  Epilogue behind(context, root);
  IndexList index = {index_variable("batch", 0, g->batch - 1), index_variable("m", 0, g->groups * g->filters - 1)};
  for (const IndexExpr& at : unravel(index_variable("n", 0, g->outputs - 1), g->out)) index.push_back(at);
  if (!x || !w || !behind.reach(index)) return {};
  const Tile tile = choose_tile(*g, dtype);
  context.cover(tile.count(*g), tile.threads());
  const std::string shape = context.names.unique("convolution"), tile_name = context.names.unique("Tile");
  std::vector<std::string> lines = {g->text,
                                    "constexpr weft::Convolution " + shape + "{.batch = " + std::to_string(g->batch) +
                                        ", .groups = " + std::to_string(g->groups) +
                                        ", .channels = " + std::to_string(g->channels) +
                                        ", .filters = " + std::to_string(g->filters) + "};",
                                    "using " + tile_name + " = weft::ConvolutionTile<" +
                                        list_text({tile.m, tile.n, tile.thread_m, tile.thread_n}) + ">;"};
  const std::vector<std::string> put = put_lines(
      context, root, behind,
      "weft::convolve<" + tile_name + ", " + compute_type(dtype) + ">(window, " + shape + ", " + *x + ", " + *w);
  lines.insert(lines.end(), put.begin(), put.end());
  return lines;
}

}  // namespace weft
