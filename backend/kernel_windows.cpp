// Convolutions and pools on the host: images read in place (weft/direct_convolution.h, weft/channels_last.h), or
// windows packed into panels and rows of planes (weft/planes.h).
#include <algorithm>

#include "backend/contraction_writer.h"
#include "backend/nest.h"
#include "ir/op_def.h"

namespace weftc {

/// Inserts a statement at the beginning of the lambda that takes sums.
static void add_in_front(Statements& epilogue, Statement statement) {
  Statements& body = *epilogue.front().body();
  body.insert(body.begin(), std::move(statement));
}
/// An element of the input.
IndexList ContractionWriter::image_index() const { return element_of(context_.extents(op_.inputs[0]), "x"); }

/// All of the input, row-major.
Site ContractionWriter::planes() {
  const ValueId value = op_.inputs[0];
  const IndexList index = image_index();
  const IndexExpr place = linear_index(index, context_.extents(value));
  if (const std::optional<Site> found = site(value, index); found && found->offset == place) return *found;
  const std::string array = context_.names.unique("planes");
  append(lines_, write_array(context_, value, array));
  return {array, place, nullptr};
}

/// The image with its channels innermost, padded to a multiple of `together` channels: the operand itself if it is
/// stored so, else a copy in that order.
std::string ContractionWriter::image(bool copies, int64_t together) {
  const ValueId value = op_.inputs[0];
  Storage storage = Storage::channels_last(static_cast<int>(context_.dims(value).size()));
  if (together > 1) storage.parts.back().block = together, storage.parts.push_back({1, 1});
  return image_stored(copies, storage, together > 1 ? memory_type(body_.type(value).dtype) : nullptr);
}

/// The image in that storage, with elements of that type or of the compute type.
std::string ContractionWriter::image_stored(bool copies, const Storage& storage, const char* element) {
  const ValueId value = op_.inputs[0];
  if (!copies) {
    const Load load = *context_.load_of(value, image_index());
    return address({context_.parameter_name(load.parameter), load.offset}, {"x0", "x1", "x2", "x3", "x4"});
  }
  const std::string array = context_.names.unique("image");
  append(lines_, write_array(context_, value, array, storage, element));
  return array;
}

/// An image that is copied anyway: read from its planes, so that it is copied only once; else with its channels
/// innermost.
std::string ContractionWriter::image_or_planes(bool copies, int64_t together) {
  const IndexList index = image_index();
  const ValueId value = op_.inputs[0];
  const std::optional<Site> found = copies && together != 2 ? site(value, index) : std::nullopt;
  if (!found || !(found->offset == linear_index(index, context_.extents(value)))) return image(copies, together);
  const std::string place = address(*found, {"x0", "x1", "x2", "x3", "x4"});
  if (together == 1) return "weft::Planes<" + std::string(type()) + ">{" + place + "}";
  return "weft::BytePlanes<" + std::string(memory_type(body_.type(value).dtype)) + ">{" + place + ", " +
         std::to_string(context_.dims(value)[1]) + "}";
}

/// The filters in the strategy's order: the packed weight, or a copy in that order.
template <class Convolution>
std::string ContractionWriter::filters(const Convolution& strategy, const char* element) {
  if (!strategy.copies_filters) return context_.parameter_name(strategy.weight);
  const std::string array = context_.names.unique("filters");
  append(lines_, write_array(context_, op_.inputs[1], array, strategy.packing, element));
  return array;
}

/// The element of output m, counted over all images, and channel n.
IndexList ContractionWriter::channels_last_index(const WindowGeometry& g, int64_t channels) const {
  const IndexExpr m = index_variable(names_.m, g.batch * g.outputs);
  IndexList index = {quotient(m, g.outputs), column(channels)};
  for (const IndexExpr& at : unravel(remainder(m, g.outputs), g.out)) index.push_back(at);
  return index;
}

/// Prefetches memory that will be written, if neighbouring channels are adjacent in memory; false if they are not.
bool ContractionWriter::put_ahead(const IndexList& result, const std::string& lambda) {
  if (body_.outputs().size() != 1 || context_.dims(body_.outputs()[0].value) != context_.dims(root_)) return false;
  const size_t parameter = context_.output_parameter(0);
  const IndexExpr offset = context_.offset(context_.kernel.parameters[parameter], result);
  const Stride m = stride_of(offset, names_.m), n = stride_of(offset, names_.n0), j = stride_of(offset, names_.j);
  if (!m.affine || !(n.coefficient == 1) || !(j.coefficient == 1)) return false;
  For loop{.variable = names_.j, .bound = name(names_.width), .step = 16};
  loop.body = {Call{call("__builtin_prefetch", {weftc::address(context_.parameter_name(parameter), offset), 1})}};
  Callback made{"const auto " + lambda + " = [&](int64_t " + names_.m + ", int64_t " + names_.n0 + ", int64_t " +
                    names_.width + ") {",
                {std::move(loop)},
                "};"};
  lines_.push_back(std::move(made));
  return true;
}

/// Declares the geometry as a constant of the kernel; returns its name.
std::string ContractionWriter::declare_window(const WindowGeometry& g) {
  const std::string window = context_.names.unique("window");
  lines_.push_back(window_line(context_, g, window));
  return window;
}

std::string ContractionWriter::declare_convolution(const Scale& batch, int64_t groups, int64_t channels,
                                                   const std::string& filters) {
  const std::string convolution = context_.names.unique("convolution");
  const bool is_constant = batch.is_number() && filters.find_first_not_of("0123456789") == std::string::npos;
  lines_.push_back(std::string(is_constant ? "constexpr" : "const") + " weft::Convolution " + convolution +
                   "{.batch = " + text(batch) + ", .groups = " + std::to_string(groups) +
                   ", .channels = " + std::to_string(channels) + ", .filters = " + filters + "};");
  return convolution;
}

/// The call of the runtime's convolution up to the lambda that takes sums. `count` is the number of filters, a constant
/// in the text. An element has `together` channels.
std::string ContractionWriter::convolve_call(const std::string& window, const std::string& convolution,
                                             const std::string& count, const std::string& x, const std::string& filters,
                                             int64_t together) const {
  const std::string image = count + ">(team, " + window + ", " + convolution + ", " + x + ", ";
  if (together == 1) return "weft::convolve<" + std::string(type()) + ", " + image + filters + ", ";
  if (together == 2) return "weft::convolve_pairs<" + image + filters + ", ";
  return "weft::convolve_bytes<" + image + std::to_string(op_.integer_or("zero", 0)) + ", " + filters + ", ";
}

/// A product whose rows are windows of the image, read in place.
Statements ContractionWriter::direct_convolution(const DirectConvolution& strategy) {
  const WindowGeometry g = *window_geometry(context_, root_);
  const int64_t channels = g.groups * g.filters;
  if (g.groups > 1 && g.filters % 16) columns_ = Columns::Many;
  if (strategy.is_product) return product_of_outputs(g, strategy);
  context_.need_header("direct_convolution.h");
  const IndexList result = channels_last_index(g, channels);
  after_.reach(result);
  const int64_t together = strategy.together;
  const bool copies = strategy.copies_image || g.channels % together != 0;
  const std::string x = image_or_planes(copies, together);
  const std::string w = filters(strategy, together > 1 ? memory_type(body_.type(op_.inputs[1]).dtype) : nullptr);
  context_.need({Argument::Kind::Team});
  const std::string window = declare_window(g);
  const std::string convolution =
      declare_convolution(g.batch, g.groups, (g.channels + together - 1) / together, std::to_string(g.filters));
  const std::string ahead = context_.names.unique("ahead");
  const bool is_ahead = put_ahead(result, ahead);
  const Shape shape{{}, (g.batch * g.outputs).high(), channels, 1, "", "", "", ""};
  const std::string count = g.batch.is_number() ? convolution + ".filters" : std::to_string(g.filters);
  Statements epilogue = put(
      shape, convolve_call(window, convolution, count, x, w, together) + "[=](" + sums_parameters(names_.n0) + ") {");
  if (is_ahead) std::get<Callback>(epilogue.front().what).close = "}, " + ahead + ");";
  append(lines_, std::move(epilogue));
  return lines_;
}

/// Windows of one element: the outputs of all images are rows, with innermost channels.
Statements ContractionWriter::product_of_outputs(const WindowGeometry& g, const DirectConvolution& strategy) {
  fetches_ahead_ = !strategy.is_short;
  if (strategy.is_short) context_.need_header("short_product.h");
  after_.reach(channels_last_index(g, g.filters));
  const std::string x = image(strategy.copies_image, 1), w = filters(strategy), t = type();
  const Scale rows = g.batch * g.outputs;
  const Shape shape{
      {}, rows.high(), g.filters, g.channels, "", text(rows), std::to_string(g.filters), std::to_string(g.channels)};
  context_.need({Argument::Kind::Team});
  lines_.push_back(contraction_text(shape));
  lines_.push_back(Let{"auto", names_.rows, name("weft::Rows<" + t + ">{" + x + ", " + shape.k_text + "}")});
  const bool is_few = !rows.is_number() || rows.number <= 3;
  const std::string function =
      strategy.is_short ? "contract_short<" + t + ", " + shape.n_text : (is_few ? "contract_few<" : "contract<") + t;
  append(lines_, put(shape, "weft::" + function + ">(team, " + names_.extents + ", " + names_.rows + ", " + w +
                                ", [=](" + sums_parameters(names_.n0) + ") {"));
  return lines_;
}

/// Tiles of outputs by Winograd's minimal filtering.
Statements ContractionWriter::winograd_convolution(const WinogradConvolution& strategy) {
  const WindowGeometry g = *window_geometry(context_, root_);
  context_.need_header("winograd.h");
  after_.reach(channels_last_index(g, g.filters));
  const std::string x = image(strategy.copies_image, 1);
  context_.need({Argument::Kind::Team});
  const std::string window = declare_window(g);
  const std::string convolution = declare_convolution(g.batch, 1, g.channels, std::to_string(g.filters));
  const Shape shape{{}, (g.batch * g.outputs).high(), g.filters, 1, "", "", "", ""};
  append(lines_, put(shape, "weft::convolve_winograd<" + std::to_string(strategy.tile) + ">(team, " + window + ", " +
                                convolution + ", " + x + ", " + context_.parameter_name(strategy.weight) + ", [=](" +
                                sums_parameters(names_.n0) + ") {"));
  return lines_;
}

/// The call of the runtime's convolution of channels, up to the image argument.
std::string ContractionWriter::channels_call(const WindowGeometry& g, const std::string& window) {
  const ChannelPath path = channel_path(g);
  context_.need_header(path == ChannelPath::LargeWindows ? "large_windows.h" : "channels_last.h");
  const std::string channels = std::to_string(g.groups) + ", ";
  const std::string place = ">(team, " + window + ", " + text(g.batch) + ", ";
  if (path == ChannelPath::LargeWindows)
    return "weft::convolve_large_windows<" + std::string(type()) + place + channels;
  const std::string function = "weft::convolve_channels<";
  if (path == ChannelPath::AnyWindow) return function + type() + place + channels;
  return function + "weft::TapRow{.taps = " + std::to_string(g.window.back()) +
         ", .stride = " + std::to_string(g.stride.back()) + ", .dilation = " + std::to_string(g.dilation.back()) +
         "}, " + channels + type() + place;
}

/// Each group with a filter of its own, some groups of neighbouring outputs at a time.
Statements ContractionWriter::channel_convolution(const ChannelConvolution& strategy) {
  const WindowGeometry g = *window_geometry(context_, root_), taps = channels_as_taps(g);
  columns_ = Columns::Few;
  after_.reach(channels_last_index(g, g.groups));
  const int ndim = static_cast<int>(context_.dims(op_.inputs[0]).size());
  const std::string x = image_stored(strategy.copies_image, Storage::groups_last(ndim, g.channels), nullptr);
  const std::string w = filters(strategy);
  context_.need({Argument::Kind::Team});
  const std::string window = declare_window(taps);
  const Shape shape{{}, (g.batch * g.outputs).high(), g.groups, 1, "", "", "", ""};
  append(lines_,
         put(shape, channels_call(taps, window) + x + ", " + w + ", [=](" + sums_parameters(names_.n0) + ") {"));
  return lines_;
}

std::string ContractionWriter::pool_call(bool largest) const {
  const std::string t = type(), limits = "std::numeric_limits<" + t + ">::";
  const std::string least = is_float(body_.type(root_).dtype) ? "-" + limits + "infinity()" : limits + "lowest()";
  return (largest ? least + ", weft::Largest{}, " : t + "(0), [](auto a, auto b) { return a + b; }, ");
}

/// Max and average of windows, some channels of one output at a time.
Statements ContractionWriter::pool_channels() {
  const WindowGeometry g = *window_geometry(context_, root_);
  const bool largest = op_.kind == OpKind::MaxPool, padded = !largest && op_.integer_or("count_include_pad", 0) != 0;
  after_.reach(channels_last_index(g, g.groups));
  context_.need_header("channels_last.h");
  const std::string x = image(false, 1), t = type(), taps = context_.names.unique("taps");
  context_.need({Argument::Kind::Team});
  const std::string window = declare_window(g);
  const Shape shape{{}, (g.batch * g.outputs).high(), g.groups, 1, "", "", "", ""};
  if (!largest) sum_text_ += " / " + t + "(" + (padded ? std::to_string(g.taps) : taps) + ")";
  append(lines_, put(shape, "weft::pool_channels<" + t + ">(team, " + window + ", " + text(g.batch) + ", " +
                                std::to_string(g.groups) + ", " + x + ", " + pool_call(largest) + "[=](" +
                                sums_parameters(names_.n0) + ", [[maybe_unused]] int64_t " + taps + ") {"));
  return lines_;
}

/// Max and average of windows, a row of outputs at a time.
Statements ContractionWriter::pool() {
  const WindowGeometry g = *window_geometry(context_, root_);
  const bool largest = op_.kind == OpKind::MaxPool, padded = !largest && op_.integer_or("count_include_pad", 0) != 0;
  columns_ = Columns::Many;
  const Scale planes_count = g.batch * g.groups;
  const IndexExpr plane = index_variable(names_.batch, planes_count);
  IndexList result = {quotient(plane, g.groups), remainder(plane, g.groups)};
  for (const IndexExpr& at : unravel(column(g.outputs), g.out)) result.push_back(at);
  after_.reach(result);
  const Site x = planes();
  context_.need({Argument::Kind::Team});
  const std::string t = type(), taps = context_.names.unique("taps");
  const std::string window = declare_window(g);
  const Shape shape{{planes_count}, 1, g.outputs.high(), 1, "", "", "", ""};
  if (!largest) sum_text_ += " / " + (padded ? t + "(" + std::to_string(g.taps) + ")" : taps + "[" + names_.j + "]");
  Statements epilogue = put(shape, "weft::pool_planes<" + t + ">(team, " + window + ", " + text(planes_count) + ", " +
                                       x.base + ", " + pool_call(largest) + "[=](" + any_batch() +
                                       ", int64_t, int64_t " + names_.n0 + ", auto " + names_.width + ", const " + t +
                                       "* " + names_.sums + ", [[maybe_unused]] const " + t + "* " + taps + ") {");
  append(lines_, std::move(epilogue));
  return lines_;
}

/// The number of channels of a group on this rank.
std::string ContractionWriter::channels_text(const WindowGeometry& g) const {
  return g.run_channels ? context_.extent_argument(*g.run_channels) : std::to_string(g.channels);
}

ContractionWriter::Filters ContractionWriter::filters(bool is_plane) {
  const WindowGeometry g = *window_geometry(context_, root_);
  const int64_t depth = g.channels * g.taps;
  const Scale batch = g.batch * g.groups;
  if (is_plane || !g.outputs.is_number()) columns_ = Columns::Many;
  const IndexExpr b = index_variable(names_.batch, batch), m = index_variable(names_.m, 0, g.filters - 1);
  const IndexExpr k = index_variable("k", 0, depth - 1);
  const IndexExpr group = remainder(b, g.groups), image = quotient(b, g.groups);
  IndexList result = {image, group * g.filters + m}, w_index = {group * g.filters + m};
  for (const IndexExpr& at : unravel(column(g.outputs), g.out)) result.push_back(at);
  const Dims w_dims = context_.dims(op_.inputs[1]);
  for (const IndexExpr& at : unravel(k, Dims(w_dims.begin() + 1, w_dims.end()))) w_index.push_back(at);
  after_.reach(result);
  std::optional<Site> w = site(op_.inputs[1], w_index);
  const auto is_plain = [&](const Site& at) {
    return stride_of(at.offset, "k").affine && stride_of(at.offset, names_.m).affine;
  };
  const IndexExpr dense = linear_index(w_index, w_dims);  // rows of a plane's filters are contiguous
  const bool is_dense = w && (!is_plane || w->offset - w->offset.constant() == dense);
  if (!w || !is_plain(*w) || !is_dense)
    w = is_plane ? contiguous_array(op_.inputs[1], w_index, "filters") : array_site(op_.inputs[1], w_index, "filters");
  const std::string depth_text =
      g.run_channels ? channels_text(g) + " * " + std::to_string(g.taps) : std::to_string(depth);
  const Shape shape{{batch},         g.filters, g.outputs.high(), depth, "", std::to_string(g.filters),
                    text(g.outputs), depth_text};
  return {g, shape, *w};
}

/// The filters of all groups are contiguous; all images share them.
Statements ContractionWriter::plane_convolution() {
  const auto [g, shape, w] = filters(true);
  const Site x = planes();
  context_.need({Argument::Kind::Team});
  const bool is_one = g.batch == Scale(1);
  const std::string t = type(), window = declare_window(g), group = context_.names.unique("group"),
                    first = context_.names.unique("first");
  const std::string move = is_one ? "" : " + " + first + " * " + window + ".in_count()";
  const std::string head =
      "[=](" + (is_one ? any_batch() : "int64_t " + group) + ", " + sums_parameters(names_.n0) + ") {";
  Statements epilogue = put(shape, "weft::convolve_planes<" + t + ">(team, " + window + ", " +
                                       std::to_string(g.groups) + ", " + std::to_string(g.filters) + ", " + x.base +
                                       move + ", " + address(w, {names_.batch, names_.m, "k"}) + ", " + head);
  if (is_one) {
    append(lines_, std::move(epilogue));
    return lines_;
  }
  add_in_front(epilogue, Let{"int64_t", names_.batch, binary(name(first), "+", name(group))});
  lines_.push_back(
      For{.variable = first, .bound = expression(g.batch * g.groups), .step = g.groups, .body = std::move(epilogue)});
  return lines_;
}

Statements ContractionWriter::point_convolution() {
  const auto [g, shape, w] = filters(false);
  const Site x = planes();
  context_.need({Argument::Kind::Team});
  const std::string t = type();
  lines_.push_back(contraction_text(shape));
  lines_.push_back("const auto " + names_.rows + " = [&](" + any_batch() + ") { return " + first_operand(w) + "; };");
  lines_.push_back("const auto " + names_.panels + " = [&](int64_t " + names_.batch + ") { return weft::Unpacked<" + t +
                   ">{" + x.base + " + " + names_.batch + " * " + text(g.outputs * shape.k) + ", 1, " +
                   text(g.outputs) + "}; };");
  Statements epilogue = put(shape, "weft::contract_batch<" + t + ">(team, " + text(g.batch * g.groups) + ", " +
                                       names_.extents + ", " + names_.rows + ", " + names_.panels + ", [=](" +
                                       any_batch() + ", " + sums_parameters(names_.n0) + ") {");
  append(lines_, std::move(epilogue));
  return lines_;
}

/// For each image and group: packs some panels of columns, then multiplies them with the filters.
Statements ContractionWriter::unfolded(const UnfoldedConvolution& strategy) {
  const auto [g, shape, w] = filters(false);
  const Site x = planes();
  context_.need({Argument::Kind::Team});
  const std::string window = declare_window(g);
  const std::string t = type(), array = context_.names.unique("columns_16"), column = context_.names.unique("column");
  const int64_t block = strategy.panels, most = (g.outputs.high() + 15) / 16;
  const bool at_once = block >= most;
  const std::string n = text(g.outputs), step = std::to_string(block);
  const std::string panels = g.outputs.is_number() ? std::to_string(most) : "(" + n + " + 15) / 16";
  lines_.push_back("const weft::Scratch<" + t + "> " + array + "(" + std::to_string(block * 16 * shape.k) + ");");
  Statements body;
  const std::string first = at_once ? "0" : "first";
  const std::string count = at_once ? panels : "std::min<int64_t>(" + step + ", " + panels + " - first)";
  const std::string width =
      at_once ? n : "std::min<int64_t>(" + std::to_string(block * 16) + ", " + n + " - first * 16)";
  body.push_back("const weft::Contraction " + names_.extents + "{.m = " + shape.m_text + ", .n = " + width +
                 ", .k = " + shape.k_text + "};");
  const Expr image =
      name(x.base + " + " + names_.batch + " * " + std::to_string(g.channels) + " * " + window + ".in_count()");
  body.push_back(Call{call("weft::unfold<" + t + ">", {name("team"), name(window), name(channels_text(g)), image,
                                                       name(first), name(count), name(array + ".get()")})});
  Statements epilogue = put(shape, "weft::contract<" + t + ">(team, " + names_.extents + ", " + names_.rows + ", " +
                                       array + ".get(), [=](" + sums_parameters(at_once ? names_.n0 : column) + ") {");
  if (!at_once)
    add_in_front(epilogue, Let{"int64_t", names_.n0, binary(binary(name("first"), "*", 16), "+", name(column))});
  append(body, std::move(epilogue));
  For images{.variable = names_.batch, .bound = expression(g.batch * g.groups)};
  images.body = {Let{"auto", names_.rows, name(first_operand(w))}};
  if (at_once)
    append(images.body, std::move(body));
  else
    images.body.push_back(For{.variable = "first", .bound = name(panels), .step = block, .body = std::move(body)});
  lines_.push_back(std::move(images));
  return lines_;
}

Statements write_body(KernelContext& context, const DirectConvolution& strategy, Writer<DirectConvolution>) {
  return ContractionWriter(context).direct_convolution(strategy);
}

Statements write_body(KernelContext& context, const WinogradConvolution& strategy, Writer<WinogradConvolution>) {
  return ContractionWriter(context).winograd_convolution(strategy);
}

Statements write_body(KernelContext& context, const ChannelConvolution& strategy, Writer<ChannelConvolution>) {
  return ContractionWriter(context).channel_convolution(strategy);
}

/// A grid computes windows of one channel element by element: neighbouring threads read neighbouring windows.
Statements write_body(KernelContext& context, const PlaneConvolution&, Writer<PlaneConvolution>) {
  return context.facts().has_grid ? write_nests(context) : ContractionWriter(context).plane_convolution();
}

Statements write_body(KernelContext& context, const PointConvolution&, Writer<PointConvolution>) {
  return ContractionWriter(context).point_convolution();
}

Statements write_body(KernelContext& context, const UnfoldedConvolution& strategy, Writer<UnfoldedConvolution>) {
  return ContractionWriter(context).unfolded(strategy);
}

Statements write_body(KernelContext& context, const WindowReduction& strategy, Writer<WindowReduction>) {
  if (context.facts().has_grid) return write_nests(context);
  ContractionWriter writer(context);
  return strategy.channels_last ? writer.pool_channels() : writer.pool();
}

}  // namespace weftc
