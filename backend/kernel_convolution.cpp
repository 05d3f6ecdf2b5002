// Convolutions on a device as products through shared memory (weft/device_convolution.h). One filter a channel has
// nothing to share: that, and operands that do not lie row-major, are plain loops.
#include "backend/device_tile.h"
#include "backend/kernel_text.h"
#include "ir/op_def.h"

namespace weftc {

namespace {

/// The address of an operand that lies row-major in memory, in the convolution's type: all of it, or a chunk.
std::optional<std::string> operand_address(KernelContext& context, ValueId value, DType dtype) {
  const Dims dims = context.dims(value);
  IndexList index;
  for (size_t d = 0; d < dims.size(); ++d) index.push_back(index_variable("x" + std::to_string(d), 0, dims[d] - 1));
  const std::optional<Load> load = context.load_of(value, index);
  if (!load) return {};
  const Parameter& parameter = context.kernel.parameters[load->parameter];
  IndexExpr first = load->offset;
  for (size_t d = 0; d < dims.size(); ++d) first = substitute(first, "x" + std::to_string(d), 0);
  if (!(load->offset == first + linear_index(index, dims)) || parameter.type.dtype != dtype ||
      parameter.packing.kind != Packing::Kind::RowMajor)
    return {};
  const std::string& name = context.parameter_name(load->parameter);
  return first == 0 ? name : name + " + " + first.text();
}

/// What the runtime counts in 32 bits.
bool is_small(const WindowGeometry& g) {
  constexpr int64_t kMost = int64_t{1} << 30;
  return g.channels * g.taps < kMost && g.channels * g.inputs < kMost && g.outputs < kMost &&
         g.filters * g.channels * g.taps < kMost;
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
  const Tile tile = choose_tile(context, {g->groups, g->filters, g->batch * g->outputs}, dtype);
  const std::string shape = context.names.unique("convolution"), tile_name = context.names.unique("Tile");
  std::vector<std::string> lines = {window_line(*g),
                                    "constexpr weft::Convolution " + shape + "{.batch = " + std::to_string(g->batch) +
                                        ", .groups = " + std::to_string(g->groups) +
                                        ", .channels = " + std::to_string(g->channels) +
                                        ", .filters = " + std::to_string(g->filters) + "};",
                                    "using " + tile_name + " = " + tile.text(dtype) + ";"};
  const std::vector<std::string> put = put_sums(
      context, root, behind,
      "weft::convolve<" + tile_name + ", " + compute_type(dtype) + ">(window, " + shape + ", " + *x + ", " + *w);
  lines.insert(lines.end(), put.begin(), put.end());
  return lines;
}

}  // namespace weftc
