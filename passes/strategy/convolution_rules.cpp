// Convolutions and pools.
#include <algorithm>

#include "ir/kernel/window_geometry.h"
#include "ir/op_def.h"
#include "passes/strategy/convolution_price.h"
#include "passes/strategy/strategy_rules.h"

namespace weftc {

namespace {

/// The only op of the body that moves a window, with its geometry.
struct WindowOp {
  ValueId root;
  WindowGeometry geometry;
};

bool has_window(const Graph& body) {
  return has_op(body, {OpKind::Conv, OpKind::ConvInteger, OpKind::MaxPool, OpKind::AveragePool});
}

std::optional<WindowOp> window_of(const KernelBody& body, std::string& why) {
  const ValueId root = contraction_of(body.body);
  why = "the kernel has several loops that sum, or it is a pool of wide integers";
  const bool is_pool = root && body.body.producer_op(root).inputs.size() == 1;
  const DType dtype = root ? body.body.type(root).dtype : DType::F32;
  if (!root || (is_pool && !is_float(dtype) && dtype != DType::U8 && dtype != DType::I8)) return {};
  why = "the window has more than three dimensions, or nothing in it";
  const std::optional<WindowGeometry> geometry = window_geometry(body, root);
  if (!geometry) return {};
  why = "a result is not reached from the sums by views and pointwise ops";
  if (!indices_after(body, root, IndexList(body.dims(root).size()))) return {};
  why = "";
  return WindowOp{root, *geometry};
}

/// A convolution for the host. Nothing where the body has none; `why` then says why a window does not fit.
std::optional<WindowOp> host_convolution(const StrategyContext& context, std::string& why) {
  if (context.target.has_grid() || !has_window(context.body.body)) return {};
  std::optional<WindowOp> found = window_of(context.body, why);
  const bool is_convolution = found && context.body.body.producer_op(found->root).kind == OpKind::Conv;
  return is_convolution ? found : std::nullopt;
}

/// The same for 8-bit integers.
std::optional<WindowOp> byte_convolution(const StrategyContext& context, std::string& why) {
  if (context.target.has_grid() || !has_op(context.body.body, {OpKind::ConvInteger})) return {};
  return window_of(context.body, why);
}

bool has_one_channel_a_group(const WindowGeometry& g) { return g.channels == 1 && !g.plain; }

/// Whether an operand lies row-major in memory as `dtype`: all of it, or a chunk.
bool is_row_major(const KernelBody& body, ValueId value, DType dtype) {
  const Dims dims = body.dims(value);
  IndexList index;
  for (size_t d = 0; d < dims.size(); ++d) index.push_back(index_variable("x" + std::to_string(d), 0, dims[d] - 1));
  const std::optional<Load> load = body.load_of(value, index);
  if (!load) return false;
  IndexExpr first = load->offset;
  for (size_t d = 0; d < dims.size(); ++d) first = substitute(first, "x" + std::to_string(d), 0);
  return load->offset == first + linear_index(index, dims) &&
         body.kernel.parameters[load->parameter].type.dtype == dtype;
}

/// The number of summed channels differs from rank to rank. A kernel that multiplies all of them would read some that
/// nobody wrote, and zeros in a filter do not cancel these (0 * NaN is NaN).
constexpr const char* kRaggedChannels = "its channels are sliced unevenly";

/// Whether all numbers that the runtime counts in 32 bits fit.
bool is_small(const WindowGeometry& g) {
  constexpr int64_t kMost = int64_t{1} << 30;
  return g.channels * g.taps < kMost && g.channels * g.inputs.high() < kMost && g.outputs.high() < kMost &&
         g.filters * g.channels * g.taps < kMost;
}

/// Filters [n, c, taps...] in panels of 16 of a group, the channels of each tap side by side: one at a time, or some.
Storage filter_panels(const WindowGeometry& g, int ndim, int64_t channels) {
  constexpr int64_t kPanel = 16;
  const bool is_padded = g.groups > 1 && g.filters % kPanel != 0;
  Storage storage;
  if (is_padded) storage.parts.push_back({0, g.filters, g.groups});
  storage.parts.push_back({0, kPanel, is_padded ? (g.filters + kPanel - 1) / kPanel : 0});
  for (int d = 2; d < ndim; ++d) storage.parts.push_back({d, 1});
  storage.parts.push_back({1, channels});
  storage.parts.push_back({0, 1, is_padded ? kPanel : 0});
  if (channels > 1) storage.parts.push_back({1, 1});
  return storage;
}

Verdict tiled_convolution(const StrategyContext& context) {
  if (!context.target.has_grid() || !has_window(context.body.body)) return {};
  std::string why;
  const KernelBody& body = context.body;
  const std::optional<WindowOp> found = window_of(body, why);
  if (!found) return refused(why);
  const Op& op = body.body.producer_op(found->root);
  const WindowGeometry& g = found->geometry;
  const DType dtype = body.body.type(found->root).dtype;
  if (op.kind != OpKind::Conv || !is_float(dtype)) return {};
  if (!body.kernel.extents.empty()) return refused("a dimension has a run-time length or is sliced unevenly");
  if (!is_small(g)) return refused("its extents do not fit 32 bits");
  if (!is_row_major(body, op.inputs[0], dtype) || !is_row_major(body, op.inputs[1], dtype))
    return refused("an operand is computed, or read through a view");
  const std::optional<Tile> tile = choose_tile(context, g.groups, g.filters, (g.batch * g.outputs).number, dtype, why);
  if (!tile) return refused(why);
  return {TiledConvolution{*tile}, g.channels == 1 && g.groups > 1 ? "filters of one channel share nothing" : ""};
}

/// The parameter that holds the filters, if they are a weight that only this convolution reads, and all of it.
std::optional<size_t> filter_weight(const KernelBody& body, const Op& op, std::string& why) {
  const ValueId w = op.inputs[1];
  const bool is_read_once = body.body.producer_op(w).kind == OpKind::Input && body.body.value(w).uses.size() == 1;
  const size_t number = body.input_parameter(w);
  why = "the filters are no weight that only this convolution reads";
  if (!is_read_once || !body.kernel.parameters[number].weight) return {};
  why = "each chunk reads a part of the filters";
  if (!body.kernel.parameters[number].whole_over.empty()) return {};
  why = "";
  return number;
}

/// Whether outputs are the rows of a product: computing a sum of few terms takes less time than finding where each of
/// its rows begins.
bool is_product_of_outputs(const WindowGeometry& g) {
  constexpr int64_t kFewTerms = 128, kMostTerms = 1024, kFewFilters = 48;  // as short_product.h takes at most
  return g.plain && g.groups == 1 &&
         (g.channels <= kFewTerms || (g.channels <= kMostTerms && g.filters <= kFewFilters));
}

/// Whether that product puts its sums out of registers: storing them would take a good part of the time. Zen 5, 16
/// terms: 0.68 of the time of tiles whose sums are stored, 64 terms: 0.96; with AVX2 0.75 and 0.92.
bool is_short_product(const Graph& body, const WindowGeometry& g) {
  constexpr int64_t kFewTerms = 64, kFewFilters = 48, kManyOutputs = 32;
  const Scale outputs = g.batch * g.outputs;
  return outputs.is_number() && outputs.number >= kManyOutputs &&
         (g.channels <= kFewTerms || g.filters <= kFewFilters) && puts_out_of_registers(body);
}

Verdict direct_convolution(const StrategyContext& context) {
  constexpr int64_t kHalfAPanel = 8, kOutputsWorthCopies = 32;
  std::string why;
  const std::optional<WindowOp> bytes = byte_convolution(context, why);
  const std::optional<WindowOp> found = bytes ? bytes : host_convolution(context, why);
  if (!found) return {};
  const KernelBody& body = context.body;
  const Op& op = body.body.producer_op(found->root);
  const WindowGeometry& g = found->geometry;
  const DType dtype = body.body.type(found->root).dtype;
  if (!bytes && dtype != DType::F32 && dtype != DType::F64) return refused("it is not of 32-bit or 64-bit floats");
  const int64_t together = steps_at_once(body.body, op);
  if (g.groups > 1 && g.channels % together)
    return refused(format("the channels of a group are no multiple of {}", together));
  if (g.groups > 1 && g.filters < kHalfAPanel) return refused("the filters of a group do not fill half a panel of 16");
  if (std::any_of(g.before.begin(), g.before.end(), [](const Scale& pad) { return pad.number < 0; }))
    return refused("its padding is negative");
  if (g.run_channels) return refused(kRaggedChannels);
  const std::optional<size_t> weight = filter_weight(body, op, why);
  const bool has_gaps = g.groups > 1 && g.filters % (2 * kHalfAPanel) != 0;  // after the filters of each group
  if (!weight && (bytes || has_gaps)) return refused(why);
  const bool is_product = together == 1 && is_product_of_outputs(g);
  const bool is_worth_it = weight || (g.batch * g.outputs).high() >= kOutputsWorthCopies;
  return {DirectConvolution{.weight = weight.value_or(0),
                            .packing = filter_panels(g, body.body.type(op.inputs[1]).ndim(), together),
                            .copies_filters = !weight,
                            .is_product = is_product,
                            .is_short = is_product && is_short_product(body.body, g),
                            .together = together},
          is_worth_it ? "" : "its few outputs do not pay for filters that are brought into panels each time"};
}

/// The cost of tiles of that size: the multiplications for each channel and filter (`tile` 1: a direct convolution),
/// plus the time to read the weights of a tile, as a number of multiplications. It depends on the image and on all
/// filters alone, so that ranks with some of the images, channels or filters choose the same tile as one rank with all.
///
/// The times to read were measured on Sapphire Rapids, with AVX-512 and AVX2: weights come from the second cache, the
/// third one, or memory. With 14 x 14 outputs tiles of 2 take 1.25, 1.12 and 0.82 of the time of tiles of 4 for 64, 128
/// and 256 channels (Zen 3: 1.31, 1.15, 0.87). With 7 x 7 outputs tiles of 2 take 0.73 of a direct convolution's time
/// for 128 channels, 0.70 for 256, and 1.24 for 512.
int64_t winograd_cost(const WindowGeometry& g, const Dims& filters, int64_t tile) {
  constexpr int64_t kNearBytes = 1 << 20, kHeldBytes = 8 << 20;
  constexpr int64_t kOfNear = 2, kOfHeld = 5, kOfFar = 18;  // multiplications that a read takes
  const int64_t points = (tile + 2) * (tile + 2);
  const int64_t bytes = points * 4 * filters[1] * ((filters[0] + 15) / 16 * 16);
  const int64_t a_read = bytes <= kNearBytes ? kOfNear : bytes <= kHeldBytes ? kOfHeld : kOfFar;
  const auto tiles = [&](const Scale& extent) { return (extent.high() + tile - 1) / tile; };
  return points * (tiles(g.out[0]) * tiles(g.out[1]) + a_read);
}

Verdict winograd_convolution(const StrategyContext& context) {
  constexpr int64_t kPanel = 16, kPercentWorthIt = 75;
  std::string why;
  const std::optional<WindowOp> found = host_convolution(context, why);
  if (!found) return {};
  const KernelBody& body = context.body;
  const WindowGeometry& g = found->geometry;
  if (g.window != Dims{3, 3} || g.stride != Dims{1, 1} || g.dilation != Dims{1, 1}) return {};
  if (body.body.type(found->root).dtype != DType::F32) return refused("it is not of 32-bit floats");
  if (g.groups > 1) return refused("it has groups");
  if (g.run_channels) return refused(kRaggedChannels);
  if (g.channels % kPanel) return refused("its channels are no multiple of 16");
  const Op& op = body.body.producer_op(found->root);
  if (body.body.type(op.inputs[1]).dtype != DType::F32) return refused("its filters are stored in 16 bits");
  const std::optional<size_t> weight = filter_weight(body, op, why);
  if (!weight) return refused(why);
  const Dims filters = body.body.type(op.inputs[1]).dims();
  int64_t tile = winograd_cost(g, filters, 4) < winograd_cost(g, filters, 2) ? 4 : 2;
  if (!context.tile.empty()) {
    const auto* wanted = std::find_if(std::begin(kWinogradTiles), std::end(kWinogradTiles), [&](int64_t known) {
      return context.tile == std::vector{known, known};
    });
    if (wanted == std::end(kWinogradTiles))
      return refused(format("there is no tile of {}; there are: 4x4, 2x2", dims_text(context.tile)));
    tile = *wanted;
  }
  const bool is_worth_it = 100 * winograd_cost(g, filters, tile) < kPercentWorthIt * winograd_cost(g, filters, 1);
  Storage points = filter_panels(g, body.body.type(op.inputs[1]).ndim(), 1);
  points.winograd_tile = tile;
  return {WinogradConvolution{*weight, std::move(points), true, tile},
          is_worth_it ? "" : "its few outputs do not pay for larger weights"};
}

Verdict channel_convolution(const StrategyContext& context) {
  std::string why;
  const std::optional<WindowOp> found = host_convolution(context, why);
  if (!found || found->geometry.plain || found->geometry.groups == 1) return {};
  const KernelBody& body = context.body;
  const WindowGeometry& g = found->geometry;
  const DType dtype = body.body.type(found->root).dtype;
  if (dtype != DType::F32 && dtype != DType::F64) return refused("it is not of 32-bit or 64-bit floats");
  if (g.filters > 1) return refused("a group has several filters");
  if (g.channels > 1 && g.window.size() > 2) return refused("groups of several channels have three dimensions");
  if (g.run_channels) return refused(kRaggedChannels);
  const Op& op = body.body.producer_op(found->root);
  const std::optional<size_t> weight = filter_weight(body, op, why);
  std::vector<int> taps_first = {1};
  for (int d = 2; d < body.body.type(op.inputs[1]).ndim(); ++d) taps_first.push_back(d);
  taps_first.push_back(0);
  return {ChannelConvolution{weight.value_or(0), Storage::permuted(taps_first), !weight}, ""};
}

Verdict plane_convolution(const StrategyContext& context) {
  if (!has_window(context.body.body)) return {};
  std::string why;
  const std::optional<WindowOp> found = window_of(context.body, why);
  if (!found) return refused(why);
  const bool is_convolution = context.body.body.producer_op(found->root).kind == OpKind::Conv;
  if (!is_convolution || !has_one_channel_a_group(found->geometry)) return {};
  if (found->geometry.run_channels) return refused(kRaggedChannels);
  return {PlaneConvolution{}, ""};
}

Verdict point_convolution(const StrategyContext& context) {
  std::string why;
  const std::optional<WindowOp> found = host_convolution(context, why);
  return found && found->geometry.plain ? Verdict{PointConvolution{}, ""} : Verdict{};
}

Verdict unfolded_convolution(const StrategyContext& context) {
  constexpr int64_t kBlockElements = 262144;  // of an unfolded block, so that it stays in a near cache
  std::string why;
  const std::optional<WindowOp> found = host_convolution(context, why);
  if (!found) return {};
  const WindowGeometry& g = found->geometry;
  const int64_t panels = (g.outputs.high() + 15) / 16, depth = g.channels * g.taps;
  const int64_t block = std::clamp<int64_t>(kBlockElements / (16 * depth), 4, std::max<int64_t>(4, panels));
  if (context.panels > panels) return refused(format("the unfolded windows have {} panels", panels));
  return {UnfoldedConvolution{context.panels ? context.panels : std::min(block, panels)}, ""};
}

Verdict window_reduction(const StrategyContext& context) {
  if (!has_window(context.body.body)) return {};
  std::string why;
  const std::optional<WindowOp> found = window_of(context.body, why);
  if (!found) return refused(why);
  const Op& op = context.body.body.producer_op(found->root);
  if (op.kind == OpKind::Conv || op.kind == OpKind::ConvInteger) return {};
  if (op.outputs.size() > 1) return refused("the indices of the largest elements are asked for");
  if (op.integer_or("count_include_pad", 0) != 0 && op.integer_or("ceil_mode", 0) != 0)
    return refused("a window that hangs over the padding is counted in part");
  return {WindowReduction{}, ""};
}

constexpr StrategyRule kRules[] = {
    {TiledConvolution::kName, tiled_convolution, "convolutions on a device"},
    {WinogradConvolution::kName, winograd_convolution, "convolutions on the host with windows of 3 x 3 and stride 1"},
    {DirectConvolution::kName, direct_convolution, "convolutions on the host"},
    {ChannelConvolution::kName, channel_convolution, "convolutions on the host with one filter for each channel"},
    {PlaneConvolution::kName, plane_convolution, "convolutions with one channel for each filter"},
    {PointConvolution::kName, point_convolution, "convolutions on the host with windows of one element"},
    {UnfoldedConvolution::kName, unfolded_convolution, "convolutions on the host"},
    {WindowReduction::kName, window_reduction, "pools"},
};

/// The price of a strategy where its image lies as it wants.
std::optional<double> seconds_alone(const StrategyContext& context, Strategy strategy) {
  set_copies_image(strategy, false);
  return convolution_seconds(strategy, context.body, context.target);
}

ConvolutionForms convolution_forms(const StrategyContext& context) {
  ConvolutionForms forms;
  for (const StrategyRule& rule : kRules) {
    Verdict verdict = rule.ask(context);
    if (!verdict.strategy || !verdict.why.empty()) continue;
    const std::optional<double> seconds = seconds_alone(context, *verdict.strategy);
    if (!seconds) continue;
    // Ranks that have some channels or filters filter as one that has all, which rounds otherwise than sums do.
    if (std::holds_alternative<WinogradConvolution>(*verdict.strategy))
      return {PricedStrategy{std::move(*verdict.strategy), *seconds}, {}};
    auto& form = copies_image(*verdict.strategy) ? forms.innermost : forms.planes;
    if (!form || *seconds < form->seconds) form = PricedStrategy{std::move(*verdict.strategy), *seconds};
  }
  return forms;
}

}  // namespace

std::span<const StrategyRule> convolution_rules() { return kRules; }

StrategyChoice cheapest_convolution(const StrategyContext& context, Strategy strategy) {
  if (!seconds_alone(context, strategy)) return {std::move(strategy)};
  ConvolutionForms forms = convolution_forms(context);
  const bool is_innermost = forms.innermost && (!forms.planes || forms.innermost->seconds <= forms.planes->seconds);
  return {(is_innermost ? forms.innermost : forms.planes)->strategy, std::move(forms)};
}

}  // namespace weftc
