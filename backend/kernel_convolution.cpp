// Convolutions on a device as products through shared memory (weft/device_convolution.h). Rows m of the product are
// filters, columns n are positions of the output, and the sum runs over channels and taps. The runtime finds the
// operand's element for a column and a tap itself, so that no unfolded copy of the operand is made:
//
//   constexpr weft::SlidingWindow window{...};
//   constexpr weft::Convolution convolution{.batch = 1, .groups = 1, .channels = 64, .filters = 64};
//   using Tile = weft::ProductTile<...>;
//   weft::convolve<Tile, float>(window, convolution, x, w, [&](int64_t batch, int64_t m, int64_t n, float conv_sum) {
//     y[(batch * 64 + m) * 3136 + n] = conv_sum;
//   });
#include "backend/device_tile.h"
#include "backend/kernel_text.h"
#include "ir/op_def.h"

namespace weftc {

namespace {

/// The address of an operand that is row-major in memory: all of it, or a chunk.
std::string operand_address(KernelContext& context, ValueId value) {
  const Dims dims = context.dims(value);
  IndexList index;
  for (size_t d = 0; d < dims.size(); ++d) index.push_back(index_variable("x" + std::to_string(d), 0, dims[d] - 1));
  const std::optional<Load> load = context.load_of(value, index);
  IndexExpr first = load->offset;
  for (size_t d = 0; d < dims.size(); ++d) first = substitute(first, "x" + std::to_string(d), 0);
  const std::string& name = context.parameter_name(load->parameter);
  return first == 0 ? name : name + " + " + first.text();
}

}  // namespace

Statements write_body(KernelContext& context, const TiledConvolution& strategy, Writer<TiledConvolution>) {
  const ValueId root = contraction_of(context.body);
  const Op& op = context.body.producer_op(root);
  const DType dtype = context.body.type(root).dtype;
  const WindowGeometry g = *window_geometry(context, root);
  const std::string x = operand_address(context, op.inputs[0]), w = operand_address(context, op.inputs[1]);
  Epilogue after(context, root);
  const TileIndex at(context.names);
  IndexList index = {index_variable(at.batch, g.batch), index_variable(at.m, g.groups * g.filters)};
  for (const IndexExpr& o : unravel(index_variable(at.n, g.outputs), g.out)) index.push_back(o);
  after.reach(index);
  const int64_t count = tiles_of(strategy.tile, g.groups, g.filters, (g.batch * g.outputs).number);
  const std::string window = context.names.unique("window"), shape = context.names.unique("convolution");
  const std::string tile_name = context.names.unique("Tile");
  Statements lines = {window_line(context, g, window),
                      "constexpr weft::Convolution " + shape + "{.batch = " + g.batch.text() +
                          ", .groups = " + std::to_string(g.groups) + ", .channels = " + std::to_string(g.channels) +
                          ", .filters = " + std::to_string(g.filters) + "};",
                      "using " + tile_name + " = " + tile_text(context, strategy.tile, count, dtype) + ";"};
  append(lines, put_sums(context, root, after,
                         "weft::convolve<" + tile_name + ", " + compute_type(dtype) + ">(" + window + ", " + shape +
                             ", " + x + ", " + w,
                         at));
  return lines;
}

}  // namespace weftc
