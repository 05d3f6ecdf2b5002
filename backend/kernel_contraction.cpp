// Dense contractions through weft/contract.h. The operands' strides are read off their index expressions; an operand
// that has none (a prologue, a 16-bit type, a view that is not affine) is computed into an array first. What follows
// the product is computed where its sums are put: pointwise ops, and views that only move elements.
#include <algorithm>

#include "backend/epilogue.h"
#include "backend/kernel_text.h"
#include "backend/nest.h"
#include "ir/op_def.h"

namespace weftc {

namespace {

/// An element of an operand as a place in memory.
struct Site {
  std::string base;
  IndexExpr offset;
  const Parameter* parameter = nullptr;
};

class ContractionWriter {
 public:
  explicit ContractionWriter(KernelContext& context)
      : context_(context),
        body_(context.body),
        root_(contraction_of(context.body)),
        op_(body_.producer_op(root_)),
        behind_(context, root_) {}

  // One for each strategy, which has found it legal.
  Statements packed(const PackedProduct& strategy);
  Statements strided();
  Statements direct_convolution(const DirectConvolution& strategy);
  Statements plane_convolution();
  Statements point_convolution();
  Statements unfolded(const UnfoldedConvolution& strategy);
  Statements pool();
  Statements pool_channels();

 private:
  /// Extents and run-time texts of "batch m k, batch k n".
  struct Shape {
    Dims batch;
    int64_t m, n, k;
    std::string batch_text, m_text, n_text, k_text;
  };

  std::optional<Site> site(ValueId value, const IndexList& index);
  Site contiguous_array(ValueId value, const IndexList& index, const char* role);
  Site array_site(ValueId value, const IndexList& index, const char* role);
  std::optional<std::string> splat(ValueId value) const;
  Shape extents();
  Statements put(const Shape& shape, const std::string& head);
  std::string first_operand(const Site& a) const;
  std::string contraction_text(const Shape& shape, int64_t packed_k = 0) const;

  /// What the convolutions share: geometry, extents, the filters as an operand, and where their results go.
  struct Filters {
    WindowGeometry geometry;
    Shape shape;
    Site w;
  };
  Filters filters(bool is_plane);
  Site planes();
  std::string image(bool copies);
  IndexList channels_last_index(const WindowGeometry& g, int64_t channels) const;
  bool put_ahead(const IndexList& result, const std::string& lambda);
  std::string pool_call(bool largest) const;

  IndexExpr column(int64_t n) const;
  const char* type() const { return compute_type(body_.type(root_).dtype); }

  KernelContext& context_;
  const Graph& body_;
  const ValueId root_;
  const Op& op_;
  std::string sum_text_ = "sums[j]";
  bool panels_ = true;  // columns come 16 at a time, from multiples of 16
  Statements lines_;    // in front of the contraction
  Epilogue behind_;
};

/// An address: "x + m * 768".
std::string address(const Site& site, const std::vector<std::string>& without) {
  IndexExpr offset = site.offset;
  for (const std::string& variable : without) offset = substitute(offset, variable, 0);
  const std::string text = offset.text();
  return text == "0" ? site.base : site.base + " + " + text;
}

std::optional<Site> ContractionWriter::site(ValueId value, const IndexList& index) {
  const std::optional<Load> load = context_.load_of(value, index);
  if (!load) return {};
  const Parameter& parameter = context_.kernel.parameters[load->parameter];
  if (std::string(memory_type(parameter.type.dtype)) != type()) return {};
  return Site{context_.parameter_name(load->parameter), load->offset, &parameter};
}

/// The one number that every element of an operand is, if it is so.
std::optional<std::string> ContractionWriter::splat(ValueId value) const {
  while (body_.producer_op(value).kind == OpKind::Expand || body_.producer_op(value).kind == OpKind::Reshape ||
         body_.producer_op(value).kind == OpKind::Transpose)
    value = body_.producer_op(value).inputs[0];
  const Op& op = body_.producer_op(value);
  if (op.kind != OpKind::Constant || body_.type(value).count() != 1) return {};
  return real_literal(context_.plan.constants->tensor(op.constant("value")).real[0], body_.type(value).dtype);
}

/// All elements of an operand, computed into an array first.
Site ContractionWriter::contiguous_array(ValueId value, const IndexList& index, const char* role) {
  const std::string array = context_.names.unique(role);
  append(lines_, write_array(context_, value, array));
  return {array + ".get()", linear_index(index, context_.dims(value)), nullptr};
}

/// The same, or one element where all are equal.
Site ContractionWriter::array_site(ValueId value, const IndexList& index, const char* role) {
  const std::optional<std::string> number = splat(value);
  if (!number) return contiguous_array(value, index, role);
  const std::string array = context_.names.unique(role);
  lines_.push_back(std::string("const ") + type() + " " + array + "[] = {" + *number + "};");
  return {array, 0, nullptr};
}

IndexExpr ContractionWriter::column(int64_t n) const {
  if (n % 16 || !panels_) return index_variable("n", 0, n - 1);
  return index_variable("n0", 0, n - 16, 16) + index_variable("j", 0, 15);
}

std::string ContractionWriter::contraction_text(const Shape& shape, int64_t packed_k) const {
  const bool shorter = packed_k && shape.k_text != std::to_string(packed_k);
  return "const weft::Contraction extents{.m = " + shape.m_text + ", .n = " + shape.n_text + ", .k = " + shape.k_text +
         (shorter ? ", .packed_k = " + std::to_string(packed_k) : "") + "};";
}

/// Puts a statement first into the lambda that takes sums.
static void add_in_front(Statements& epilogue, Statement statement) {
  Statements& body = *epilogue.front().body();
  body.insert(body.begin(), std::move(statement));
}

/// The lambda that takes one row of up to 16 sums.
Statements ContractionWriter::put(const Shape& shape, const std::string& head) {
  Cuts cuts;
  Elements elements(context_, cuts);
  LoopScopes& scopes = elements.scopes;
  Scope row(&scopes.root, Callback{head});
  scopes.floor = &row;
  for (const char* variable : {"m", "n0", "batch"}) scopes.own(variable, &row);
  Scope loop(&row, For{.kind = LoopKind::Vector, .variable = "j", .bound = name("width")});
  for (const char* variable : {"j", "n"}) scopes.own(variable, &loop), scopes.names.reserve(variable);
  if (shape.n % 16 || !panels_) loop.put(Let{"int64_t", "n", binary(name("n0"), "+", name("j"))});
  scopes.current = &loop;
  const std::string sum = scopes.names.unique(last_component(body_.value(root_).name));
  loop.put(Let{type(), sum, name(sum_text_)});
  behind_.write(elements, sum);
  loop.finish();
  row.finish();
  return scopes.root.take_body();
}

std::string ContractionWriter::first_operand(const Site& a) const {
  const Stride k = stride_of(a.offset, "k"), m = stride_of(a.offset, "m");
  const std::string t = type();
  if (k.coefficient == 1 && m.affine)
    return "weft::Rows<" + t + ">{" + address(a, {"m", "k"}) + ", " + std::to_string(m.coefficient) + "}";
  return "weft::Strided<" + t + ">{" + address(a, {"m", "k"}) + ", " + std::to_string(m.coefficient) + ", " +
         std::to_string(k.coefficient) + "}";
}

static std::string bound_text(KernelContext& context, const TensorType& type, int dim, int64_t extent) {
  const std::string bound = context.run_extent(type, dim);
  return bound.empty() ? std::to_string(extent) : bound;
}

ContractionWriter::Shape ContractionWriter::extents() {
  Shape s;
  const TensorType &type = body_.type(root_), &a = body_.type(op_.inputs[0]), &b = body_.type(op_.inputs[1]);
  const Dims dims = context_.dims(root_);
  const int nd = type.ndim();
  s.batch.assign(dims.begin(), dims.end() - 2);
  s.m = dims[static_cast<size_t>(nd) - 2], s.n = dims[static_cast<size_t>(nd) - 1];
  s.k = context_.dims(op_.inputs[0]).back();
  s.m_text = bound_text(context_, type, nd - 2, s.m);
  s.n_text = bound_text(context_, type, nd - 1, s.n);
  s.k_text = bound_text(context_, a, a.ndim() - 1, s.k);
  if (context_.run_extent(a, a.ndim() - 1).empty()) s.k_text = bound_text(context_, b, b.ndim() - 2, s.k);
  s.batch_text = std::to_string(element_count(s.batch));
  for (int d = 0; d < nd - 2; ++d) {
    const std::string bound = context_.run_extent(type, d);
    if (bound.empty()) continue;
    s.batch_text = bound + " * " + std::to_string(element_count({s.batch.begin() + 1, s.batch.end()}));
  }
  return s;
}

/// The second operand is a packed weight, the same for all of the batch: batch and rows are one.
Statements ContractionWriter::packed(const PackedProduct& strategy) {
  Shape s = extents();
  const std::string& name = context_.parameter_name(strategy.weight);
  const Dims b_dims = context_.dims(op_.inputs[1]);
  const Dims a_dims = context_.dims(op_.inputs[0]);
  const bool run_rows = s.m_text != std::to_string(s.m);
  if (!run_rows)
    s.m_text = s.batch_text == std::to_string(element_count(s.batch)) ? std::to_string(element_count(s.batch) * s.m)
                                                                      : s.batch_text + " * " + std::to_string(s.m);
  const IndexExpr m = index_variable("m", 0, element_count(s.batch) * s.m - 1), k = index_variable("k", 0, s.k - 1);
  Dims rows = s.batch;
  rows.push_back(s.m);
  IndexList result = unravel(m, rows), a_index = result;
  result.push_back(column(s.n));
  a_index.push_back(k);
  // A's own batch dims may be fewer.
  a_index.erase(a_index.begin(), a_index.begin() + static_cast<long>(a_index.size() - a_dims.size()));
  for (size_t d = 0; d < a_dims.size(); ++d)
    if (a_dims[d] == 1) a_index[d] = 0;
  behind_.reach(result);
  std::optional<Site> a = site(op_.inputs[0], a_index);
  const auto usable = [&](const Site& at) {
    const Stride ks = stride_of(at.offset, "k");
    return ks.affine && (ks.coefficient == 1 || s.k == 1 || stride_of(at.offset, "m").affine);
  };
  if (!a || !usable(*a)) a = array_site(op_.inputs[0], a_index, "a_rows");
  context_.need({Argument::Kind::Team});
  lines_.push_back(contraction_text(s, b_dims[b_dims.size() - 2]));
  const std::string t = type();
  if (stride_of(a->offset, "m").affine)
    lines_.push_back("const auto rows = " + first_operand(*a) + ";");
  else
    lines_.push_back("const auto rows = [&](int64_t m) { return " + address(*a, {"k"}) + "; };");
  Statements epilogue = put(s, "weft::contract<" + t + ">(team, extents, rows, " + name +
                                   ", [&](int64_t m, int64_t n0, auto width, const " + t + "* sums) {");
  append(lines_, std::move(epilogue));
  return lines_;
}

Statements ContractionWriter::strided() {
  const Shape s = extents();
  const IndexExpr m = index_variable("m", 0, s.m - 1), k = index_variable("k", 0, s.k - 1);
  const IndexExpr n = index_variable("n", 0, s.n - 1);
  const int64_t count = element_count(s.batch);
  const IndexList lead = unravel(index_variable("batch", 0, count - 1), s.batch);
  const auto operand_index = [&](ValueId value, const IndexExpr& row, const IndexExpr& col) {
    const Dims dims = context_.dims(value);
    IndexList index(dims.size());
    for (size_t d = 0; d + 2 < dims.size(); ++d)
      index[d] = dims[d] == 1 ? IndexExpr(0) : lead[lead.size() - (dims.size() - 2) + d];
    index[dims.size() - 2] = row, index[dims.size() - 1] = col;
    return index;
  };
  IndexList result = lead;
  result.push_back(m), result.push_back(column(s.n));
  behind_.reach(result);
  const IndexList a_index = operand_index(op_.inputs[0], m, k), b_index = operand_index(op_.inputs[1], k, n);
  std::optional<Site> a = site(op_.inputs[0], a_index), b = site(op_.inputs[1], b_index);
  if (!a || !stride_of(a->offset, "m").affine || !stride_of(a->offset, "k").affine)
    a = array_site(op_.inputs[0], a_index, "a_rows");
  if (!b || !stride_of(b->offset, "n").affine || !stride_of(b->offset, "k").affine)
    b = array_site(op_.inputs[1], b_index, "b_columns");
  context_.need({Argument::Kind::Team});
  const std::string t = type();
  lines_.push_back(contraction_text(s));
  lines_.push_back("const auto rows = [&]([[maybe_unused]] int64_t batch) { return " + first_operand(*a) + "; };");
  lines_.push_back("const auto columns = [&]([[maybe_unused]] int64_t batch) { return weft::Unpacked<" + t + ">{" +
                   address(*b, {"n", "k"}) + ", " + std::to_string(stride_of(b->offset, "n").coefficient) + ", " +
                   std::to_string(stride_of(b->offset, "k").coefficient) + "}; };");
  Statements epilogue = put(
      s, "weft::contract_batch<" + t + ">(team, " + s.batch_text +
             ", extents, rows, columns, [&]([[maybe_unused]] int64_t batch, int64_t m, int64_t n0, auto width, const " +
             t + "* sums) {");
  append(lines_, std::move(epilogue));
  return lines_;
}

/// All of the input, row-major.
Site ContractionWriter::planes() {
  const Dims dims = context_.dims(op_.inputs[0]);
  IndexList index;
  for (size_t d = 0; d < dims.size(); ++d) index.push_back(index_variable("x" + std::to_string(d), 0, dims[d] - 1));
  const std::optional<Site> found = site(op_.inputs[0], index);
  if (found && found->offset == linear_index(index, dims)) return *found;
  return contiguous_array(op_.inputs[0], index, "planes");
}

/// The image with its channels innermost: where it lies so, else brought into that order.
std::string ContractionWriter::image(bool copies) {
  const ValueId value = op_.inputs[0];
  const Dims dims = context_.dims(value);
  IndexList index;
  for (size_t d = 0; d < dims.size(); ++d) index.push_back(index_variable("x" + std::to_string(d), 0, dims[d] - 1));
  if (!copies) return address(*site(value, index), {"x0", "x1", "x2", "x3", "x4"});
  const std::string array = context_.names.unique("image");
  append(lines_, write_array(context_, value, array, Storage::channels_last(static_cast<int>(dims.size()))));
  return array + ".get()";
}

/// The element of output m, counted over all images, and channel n.
IndexList ContractionWriter::channels_last_index(const WindowGeometry& g, int64_t channels) const {
  const IndexExpr m = index_variable("m", 0, g.batch * g.outputs - 1);
  IndexList index = {quotient(m, g.outputs), column(channels)};
  for (const IndexExpr& at : unravel(remainder(m, g.outputs), g.out)) index.push_back(at);
  return index;
}

/// Prefetches what will be written, where neighbouring channels are neighbours in memory; false if they are not.
bool ContractionWriter::put_ahead(const IndexList& result, const std::string& lambda) {
  if (body_.outputs().size() != 1 || context_.dims(body_.outputs()[0].value) != context_.dims(root_)) return false;
  const size_t parameter = context_.output_parameter(0);
  const IndexExpr offset = context_.offset(context_.kernel.parameters[parameter], result);
  const Stride m = stride_of(offset, "m"), n = stride_of(offset, "n0"), j = stride_of(offset, "j");
  if (!m.affine || n.coefficient != 1 || j.coefficient != 1) return false;
  For loop{.variable = "j", .bound = name("width"), .step = 16};
  loop.body = {"__builtin_prefetch(" + context_.parameter_name(parameter) + " + " + offset.text() + ", 1);"};
  Callback made{"const auto " + lambda + " = [&](int64_t m, int64_t n0, int64_t width) {", {std::move(loop)}, "};"};
  lines_.push_back(std::move(made));
  return true;
}

/// Whether a window hangs over the image: then it is copied into one with a border of zeros.
static bool reads_border(const WindowGeometry& g) {
  for (size_t d = 0; d < g.in.size(); ++d) {
    const int64_t last = (g.out[d] - 1) * g.stride[d] - g.before[d] + (g.window[d] - 1) * g.dilation[d];
    if (g.before[d] > 0 || last >= g.in[d]) return true;
  }
  return false;
}

/// A product whose rows are windows of the image, read where they lie.
Statements ContractionWriter::direct_convolution(const DirectConvolution& strategy) {
  const WindowGeometry g = *window_geometry(context_, root_);
  const int64_t filters = g.groups * g.filters;
  context_.need_header("direct_convolution.h");
  const IndexList result = channels_last_index(g, filters);
  behind_.reach(result);
  const std::string x = image(strategy.copies_image), t = type();
  context_.need({Argument::Kind::Team});
  lines_.push_back(window_line(g));
  lines_.push_back("constexpr weft::Convolution convolution{.batch = " + std::to_string(g.batch) +
                   ", .groups = " + std::to_string(g.groups) + ", .channels = " + std::to_string(g.channels) +
                   ", .filters = " + std::to_string(g.filters) + "};");
  std::string bordered = "nullptr";
  if (reads_border(g)) {
    const std::string array = context_.names.unique("bordered");
    lines_.push_back("const std::unique_ptr<" + t + "[]> " + array + "(new " + t +
                     "[weft::border_count(window, convolution)]);");
    bordered = array + ".get()";
  }
  const std::string ahead = context_.names.unique("ahead");
  const bool is_ahead = put_ahead(result, ahead);
  const Shape shape{{}, g.batch * g.outputs, filters, 1, "", "", "", ""};
  Statements epilogue = put(shape, "weft::convolve<" + t + ">(team, window, convolution, " + x + ", " +
                                       context_.parameter_name(strategy.filters) + ", " + bordered +
                                       ", [&](int64_t m, int64_t n0, auto width, const " + t + "* sums) {");
  if (is_ahead) std::get<Callback>(epilogue.front().what).close = "}, " + ahead + ");";
  append(lines_, std::move(epilogue));
  return lines_;
}

std::string ContractionWriter::pool_call(bool largest) const {
  const std::string t = type(), limits = "std::numeric_limits<" + t + ">::infinity()";
  return (largest ? "-" + limits : t + "(0)") + ", [](" + t + " a, " + t + " b) { return " +
         (largest ? "weft::maximum(a, b)" : "a + b") + "; }, ";
}

/// Max and average of windows, some channels of one output at a time.
Statements ContractionWriter::pool_channels() {
  const WindowGeometry g = *window_geometry(context_, root_);
  const bool largest = op_.kind == OpKind::MaxPool, padded = !largest && op_.integer_or("count_include_pad", 0) != 0;
  behind_.reach(channels_last_index(g, g.groups));
  context_.need_header("channels_last.h");
  const std::string x = image(false), t = type();
  context_.need({Argument::Kind::Team});
  lines_.push_back(window_line(g));
  const Shape shape{{}, g.batch * g.outputs, g.groups, 1, "", "", "", ""};
  sum_text_ = largest  ? "sums[j]"
              : padded ? "sums[j] / " + t + "(" + std::to_string(g.taps) + ")"
                       : "sums[j] / " + t + "(taps)";
  append(lines_, put(shape, "weft::pool_channels<" + t + ">(team, window, " + std::to_string(g.batch) + ", " +
                                std::to_string(g.groups) + ", " + x + ", " + pool_call(largest) +
                                "[&](int64_t m, int64_t n0, auto width, const " + t +
                                "* sums, [[maybe_unused]] int64_t taps) {"));
  return lines_;
}

/// Max and average of windows, a row of outputs at a time.
Statements ContractionWriter::pool() {
  const WindowGeometry g = *window_geometry(context_, root_);
  const bool largest = op_.kind == OpKind::MaxPool, padded = !largest && op_.integer_or("count_include_pad", 0) != 0;
  panels_ = false;
  const int64_t planes_count = g.batch * g.groups;
  const IndexExpr plane = index_variable("batch", 0, planes_count - 1);
  IndexList result = {quotient(plane, g.groups), remainder(plane, g.groups)};
  for (const IndexExpr& at : unravel(column(g.outputs), g.out)) result.push_back(at);
  behind_.reach(result);
  const Site x = planes();
  context_.need({Argument::Kind::Team});
  const std::string t = type();
  lines_.push_back(window_line(g));
  const Shape shape{{planes_count}, 1, g.outputs, 1, "", "", "", ""};
  sum_text_ = largest  ? "sums[j]"
              : padded ? "sums[j] / " + t + "(" + std::to_string(g.taps) + ")"
                       : "sums[j] / taps[j]";
  Statements epilogue = put(shape, "weft::pool_planes<" + t + ">(team, window, " + std::to_string(planes_count) + ", " +
                                       x.base + ", " + pool_call(largest) +
                                       "[&]([[maybe_unused]] int64_t batch, int64_t, int64_t n0, auto width, const " +
                                       t + "* sums, [[maybe_unused]] const " + t + "* taps) {");
  append(lines_, std::move(epilogue));
  return lines_;
}

/// "[&](batch, m, n0, width, sums) {": what is done with a row of sums of a convolution.
std::string put_head(const char* type, const char* batch, const char* column) {
  return std::string("[&](") + batch + ", int64_t m, int64_t " + column + ", auto width, const " + type + "* sums) {";
}

ContractionWriter::Filters ContractionWriter::filters(bool is_plane) {
  const WindowGeometry g = *window_geometry(context_, root_);
  const int64_t depth = g.channels * g.taps, batch = g.batch * g.groups;
  panels_ = !is_plane;
  const IndexExpr b = index_variable("batch", 0, batch - 1), m = index_variable("m", 0, g.filters - 1);
  const IndexExpr k = index_variable("k", 0, depth - 1);
  const IndexExpr group = remainder(b, g.groups), image = quotient(b, g.groups);
  IndexList result = {image, group * g.filters + m}, w_index = {group * g.filters + m};
  for (const IndexExpr& at : unravel(column(g.outputs), g.out)) result.push_back(at);
  const Dims w_dims = context_.dims(op_.inputs[1]);
  for (const IndexExpr& at : unravel(k, Dims(w_dims.begin() + 1, w_dims.end()))) w_index.push_back(at);
  behind_.reach(result);
  std::optional<Site> w = site(op_.inputs[1], w_index);
  const auto is_plain = [](const Site& at) {
    return stride_of(at.offset, "k").affine && stride_of(at.offset, "m").affine;
  };
  const bool is_dense = w && (!is_plane || stride_of(w->offset, "k").coefficient == (depth == 1 ? 0 : 1));
  if (!w || !is_plain(*w) || !is_dense)
    w = is_plane ? contiguous_array(op_.inputs[1], w_index, "filters") : array_site(op_.inputs[1], w_index, "filters");
  const Shape shape{{batch},
                    g.filters,
                    g.outputs,
                    depth,
                    "",
                    std::to_string(g.filters),
                    std::to_string(g.outputs),
                    std::to_string(depth)};
  return {g, shape, *w};
}

/// The filters of all groups lie one behind the other.
Statements ContractionWriter::plane_convolution() {
  const auto [g, shape, w] = filters(true);
  const Site x = planes();
  context_.need({Argument::Kind::Team});
  const std::string t = type();
  lines_.push_back(window_line(g));
  for (int64_t i = 0; i < g.batch; ++i) {
    const std::string first = std::to_string(i * g.groups), move = i ? " + " + first + " * window.in_count()" : "";
    const std::string head = put_head(type(), i ? "int64_t group" : "[[maybe_unused]] int64_t batch", "n0");
    Statements epilogue = put(shape, "weft::convolve_planes<" + t + ">(team, window, " + std::to_string(g.groups) +
                                         ", " + std::to_string(g.filters) + ", " + x.base + move + ", " +
                                         address(w, {"batch", "m", "k"}) + ", " + head);
    if (i) add_in_front(epilogue, "const int64_t batch = group + " + first + ";");
    append(lines_, std::move(epilogue));
  }
  return lines_;
}

Statements ContractionWriter::point_convolution() {
  const auto [g, shape, w] = filters(false);
  const Site x = planes();
  context_.need({Argument::Kind::Team});
  const std::string t = type();
  lines_.push_back(contraction_text(shape));
  lines_.push_back("const auto rows = [&]([[maybe_unused]] int64_t batch) { return " + first_operand(w) + "; };");
  lines_.push_back("const auto panels = [&](int64_t batch) { return weft::Unpacked<" + t + ">{" + x.base +
                   " + batch * " + std::to_string(shape.k * g.outputs) + ", 1, " + std::to_string(g.outputs) + "}; };");
  Statements epilogue =
      put(shape, "weft::contract_batch<" + t + ">(team, " + std::to_string(g.batch * g.groups) +
                     ", extents, rows, panels, " + put_head(type(), "[[maybe_unused]] int64_t batch", "n0"));
  append(lines_, std::move(epilogue));
  return lines_;
}

/// Each image and group: its columns in panels, then the product with the filters; some panels at a time.
Statements ContractionWriter::unfolded(const UnfoldedConvolution& strategy) {
  const auto [g, shape, w] = filters(false);
  const Site x = planes();
  context_.need({Argument::Kind::Team});
  lines_.push_back(window_line(g));
  const std::string t = type(), array = context_.names.unique("columns_16");
  const int64_t panels = (g.outputs + 15) / 16, block = strategy.panels;
  const bool at_once = block >= panels;
  const std::string n = std::to_string(g.outputs), step = std::to_string(block);
  lines_.push_back("const std::unique_ptr<" + t + "[]> " + array + "(new " + t + "[" +
                   std::to_string(block * 16 * shape.k) + "]);");
  Statements body;
  const std::string first = at_once ? "0" : "first";
  const std::string count =
      at_once ? std::to_string(panels) : "std::min<int64_t>(" + step + ", " + std::to_string(panels) + " - first)";
  const std::string width =
      at_once ? n : "std::min<int64_t>(" + std::to_string(block * 16) + ", " + n + " - first * 16)";
  body.push_back("const weft::Contraction extents{.m = " + shape.m_text + ", .n = " + width + ", .k = " + shape.k_text +
                 "};");
  body.push_back("weft::unfold<" + t + ">(team, window, " + std::to_string(g.channels) + ", " + x.base + " + batch * " +
                 std::to_string(g.channels) + " * window.in_count(), " + first + ", " + count + ", " + array +
                 ".get());");
  Statements epilogue =
      put(shape, "weft::contract<" + t + ">(team, extents, rows, " + array + ".get(), [&](int64_t m, int64_t " +
                     (at_once ? "n0" : "column") + ", auto width, const " + t + "* sums) {");
  if (!at_once) add_in_front(epilogue, "const int64_t n0 = first * 16 + column;");
  append(body, std::move(epilogue));
  For images{.variable = "batch", .bound = g.batch * g.groups};
  images.body = {"const auto rows = " + first_operand(w) + ";"};
  if (at_once)
    append(images.body, std::move(body));
  else
    images.body.push_back(For{.variable = "first", .bound = panels, .step = block, .body = std::move(body)});
  lines_.push_back(std::move(images));
  return lines_;
}

}  // namespace

Statements write_packed_product(KernelContext& context, const PackedProduct& strategy) {
  return ContractionWriter(context).packed(strategy);
}

Statements write_strided_product(KernelContext& context) { return ContractionWriter(context).strided(); }

Statements write_direct_convolution(KernelContext& context, const DirectConvolution& strategy) {
  return ContractionWriter(context).direct_convolution(strategy);
}

Statements write_plane_convolution(KernelContext& context) { return ContractionWriter(context).plane_convolution(); }

Statements write_point_convolution(KernelContext& context) { return ContractionWriter(context).point_convolution(); }

Statements write_unfolded_convolution(KernelContext& context, const UnfoldedConvolution& strategy) {
  return ContractionWriter(context).unfolded(strategy);
}

Statements write_window_reduction(KernelContext& context, const WindowReduction& strategy) {
  ContractionWriter writer(context);
  return strategy.channels_last ? writer.pool_channels() : writer.pool();
}

}  // namespace weftc
