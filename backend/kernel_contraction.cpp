// Dense contractions through weft/contract.h. The operands' strides are taken from their index expressions. An operand
// without strides (a prologue, a 16-bit type, a view that is not affine) is computed into an array first. The epilogue
// is computed where sums are stored: pointwise ops, and views that only move elements.
#include <algorithm>
#include <set>

#include "backend/contraction_writer.h"
#include "backend/nest.h"
#include "ir/op_def.h"

namespace weftc {

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
  const bool is_read_as_it_lies = sums_bytes() || std::string(memory_type(parameter.type.dtype)) == type();
  if (!is_read_as_it_lies) return {};
  return Site{context_.parameter_name(load->parameter), load->offset, &parameter};
}

/// The single number that all elements of an operand have, if they are equal.
std::optional<std::string> ContractionWriter::splat(ValueId value) const {
  while (body_.producer_op(value).kind == OpKind::Expand || body_.producer_op(value).kind == OpKind::Reshape ||
         body_.producer_op(value).kind == OpKind::Transpose)
    value = body_.producer_op(value).inputs[0];
  const Op& op = body_.producer_op(value);
  if (op.kind != OpKind::Constant || body_.type(value).count() != 1 || !is_float(body_.type(value).dtype)) return {};
  return real_literal(context_.plan.constants->tensor(op.constant("value")).real[0], body_.type(value).dtype);
}

/// All elements of an operand, computed into an array first.
Site ContractionWriter::contiguous_array(ValueId value, const IndexList& index, const char* role) {
  const std::string array = context_.names.unique(role);
  append(lines_, write_array(context_, value, array, {{}, true}));
  return {array, linear_index(index, context_.dims(value)), nullptr};
}

/// The same, or one element if all are equal.
Site ContractionWriter::array_site(ValueId value, const IndexList& index, const char* role) {
  const std::optional<std::string> number = splat(value);
  if (!number) return contiguous_array(value, index, role);
  const std::string array = context_.names.unique(role);
  lines_.push_back(std::string("const ") + type() + " " + array + "[] = {" + *number + "};");
  return {array, 0, nullptr};
}

/// A number of elements as text; the kernel takes its lengths as arguments.
std::string ContractionWriter::text(const Scale& count) const {
  context_.need_lengths(IndexExpr::of(count));
  return count.text();
}

Expr ContractionWriter::expression(const Scale& count) const {
  context_.need_lengths(IndexExpr::of(count));
  return IndexExpr::of(count);
}

IndexExpr ContractionWriter::column(const Scale& n) const {
  if (!n.is_number() || n.number % 16 || columns_ != Columns::Panels) return index_variable(names_.n, n);
  return index_variable(names_.n0, 0, n.number - 16, 16) + index_variable(names_.j, 0, 15);
}

std::string ContractionWriter::contraction_text(const Shape& shape, int64_t packed_k) const {
  const bool shorter = packed_k && shape.k_text != std::to_string(packed_k);
  return "const weft::Contraction " + names_.extents + "{.m = " + shape.m_text + ", .n = " + shape.n_text +
         ", .k = " + shape.k_text + (shorter ? ", .packed_k = " + std::to_string(packed_k) : "") + "};";
}

/// The names declared by the statements before a loop.
static std::set<std::string> declared_in(const Statements& statements) {
  std::set<std::string> declared;
  for (const Statement& statement : statements)
    if (const Let* let = std::get_if<Let>(&statement.what)) declared.insert(let->name);
  return declared;
}

/// Prefetches the elements of the next panels that the loop over a row of sums reads and writes, one panel ahead. A
/// panel's lines are one row apart in memory, and hardware prefetchers do not foresee that order.
Statements ContractionWriter::fetches(const Statements& row, const Statements& loop) const {
  std::set<std::string> known = declared_in(row), written;
  known.insert({names_.m, names_.n0, names_.batch});
  Statements fetches;
  for_each_expression(loop, [&](const Expr& expr) {
    if (expr.node().kind != Expr::Node::Kind::Element) return;
    const Expr& at = expr.node().operands[0].expr;
    if (at.node().kind != Expr::Node::Kind::Index) return;
    const IndexExpr first = substitute(at.node().index, names_.j, 0);
    const IndexExpr offset =
        substitute(first, names_.n, index_variable(names_.n0, 0, std::max<int64_t>(0, first.high())));
    const Stride columns = stride_of(offset, names_.n0);
    if (!columns.affine || !(columns.coefficient == 1)) return;
    bool has_row = false;
    for (const AtomPtr& variable : variables_of(offset)) {
      has_row |= variable->text == names_.m;
      if (!variable->is_length && !known.count(variable->text)) return;
    }
    const Expr place = address(expr.node().text, offset);
    if (has_row && written.insert(expr.node().text + " " + offset.text()).second)
      fetches.push_back(Call{call("weft::fetch_next_columns", {place})});
  });
  return fetches;
}

/// Moves the stores of bytes out of the loop over a row of sums. That loop leaves 32-bit numbers in an array, which
/// another loop converts to bytes. In g++ 12, all vectors of a loop have the same size. With 16 bytes in a vector, it
/// would compute only 4 floats at a time.
Statements ContractionWriter::byte_stores(Scope& row, Scope& loop) {
  const auto is_byte = [&](const Expr& place, size_t output) {
    const size_t number = context_.output_parameter(output);
    const DType dtype = context_.kernel.parameters[number].type.dtype;
    return (dtype == DType::U8 || dtype == DType::I8) && place.node().text == context_.parameter_name(number);
  };
  if (dtype_bytes(body_.type(root_).dtype) < 4 || columns_ == Columns::Many) return {};
  Statements stores;
  for (Statement& statement : loop.take_body()) {
    auto* store = std::get_if<Store>(&statement.what);
    for (size_t o = 0; store && o < body_.outputs().size(); ++o) {
      if (!is_byte(store->to, o)) continue;
      const Expr wide = element(context_.names.unique(store->to.node().text + "_row"), name(names_.j));
      row.put(LocalArray{"int32_t", wide.node().text, 16});
      stores.push_back(Store{store->to, wide});
      store->to = wide;
    }
    loop.put(std::move(statement));
  }
  return stores;
}

/// The lambda that takes one row of up to 16 sums, or the sums of a row of a plane.
Statements ContractionWriter::put(const Shape& shape, const std::string& head) {
  Cuts cuts;
  Elements elements(context_, cuts);
  LoopScopes& scopes = elements.scopes;
  Scope row(&scopes.root, Callback{head});
  scopes.floor = &row;
  for (const std::string& variable : {names_.m, names_.n0, names_.batch}) scopes.own(variable, &row);
  Scope loop(&row, For{.kind = LoopKind::Vector, .variable = names_.j, .bound = name(names_.width)});
  for (const std::string& variable : {names_.j, names_.n}) scopes.own(variable, &loop);
  const Let column{"int64_t", names_.n, binary(name(names_.n0), "+", name(names_.j))};
  const bool has_column = shape.n % 16 || columns_ != Columns::Panels;
  if (has_column) loop.put(column);
  scopes.current = &loop;
  const std::string sum = scopes.names.unique(last_component(body_.value(root_).name));
  loop.put(Let{type(), sum, name(sum_text_)});
  after_.write(elements, sum);
  if (fetches_ahead_ && shape.n > 16)
    for (Statement& fetch : fetches(row.body(), loop.body())) row.put(std::move(fetch));
  Statements stores = byte_stores(row, loop);
  loop.finish();
  if (!stores.empty()) {
    if (has_column) stores.insert(stores.begin(), column);
    row.put(
        For{.kind = LoopKind::Vector, .variable = names_.j, .bound = name(names_.width), .body = std::move(stores)});
  }
  row.finish();
  return scopes.root.take_body();
}

/// "int64_t m, int64_t n0, auto width, const float* sums": up to 16 sums of a row, starting at a column.
std::string ContractionWriter::sums_parameters(const std::string& column) const {
  return "int64_t " + names_.m + ", int64_t " + column + ", auto " + names_.width + ", const " + type() + "* " +
         names_.sums;
}

std::string ContractionWriter::first_operand(const Site& a) const {
  const Stride k = stride_of(a.offset, "k"), m = stride_of(a.offset, names_.m);
  const std::string t = type();
  if (k.coefficient == 1 && m.affine)
    return "weft::Rows<" + t + ">{" + address(a, {names_.m, "k"}) + ", " + m.coefficient.text() + "}";
  return "weft::Strided<" + t + ">{" + address(a, {names_.m, "k"}) + ", " + m.coefficient.text() + ", " +
         k.coefficient.text() + "}";
}

std::string count_text(KernelContext& context, const TensorType& type, int first, int end) {
  const Dims dims = context.dims(type);
  std::string text;
  int64_t number = 1;
  for (int d = first; d < end; ++d) {
    const std::string bound = context.run_extent(type, d);
    if (bound.empty())
      number *= dims[static_cast<size_t>(d)];
    else
      text += (text.empty() ? "" : " * ") + bound;
  }
  if (text.empty()) return std::to_string(number);
  return number == 1 ? text : text + " * " + std::to_string(number);
}

/// A row of a matrix of the batch.
IndexExpr ContractionWriter::row(const Shape& s) const {
  const IndexDims extents = context_.extents(root_);
  const Scale& rows = extents[extents.size() - 2];
  return index_variable(names_.m, rows.is_number() ? Scale(s.m) : rows);
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
  const IndexDims extents = context_.extents(root_);
  s.batch.assign(extents.begin(), extents.end() - 2);
  s.m = dims[static_cast<size_t>(nd) - 2], s.n = dims[static_cast<size_t>(nd) - 1];
  s.k = context_.dims(op_.inputs[0]).back();
  s.m_text = bound_text(context_, type, nd - 2, s.m);
  s.n_text = bound_text(context_, type, nd - 1, s.n);
  s.k_text = bound_text(context_, a, a.ndim() - 1, s.k);
  if (context_.run_extent(a, a.ndim() - 1).empty()) s.k_text = bound_text(context_, b, b.ndim() - 2, s.k);
  s.batch_text = count_text(context_, type, 0, nd - 2);
  return s;
}

/// Location of the rows of the first operand; an array of them if a row's elements have no constant stride.
Site ContractionWriter::rows_site(const IndexList& index, int64_t k) {
  const std::optional<Site> a = site(op_.inputs[0], index);
  if (a) {
    const Stride ks = stride_of(a->offset, "k");
    if (ks.affine && (ks.coefficient == 1 || k == 1 || stride_of(a->offset, names_.m).affine)) return *a;
  }
  return array_site(op_.inputs[0], index, "a_rows");
}

/// Declares the rows of the first operand, for the whole batch.
void ContractionWriter::declare_rows(const Site& a) {
  if (stride_of(a.offset, names_.m).affine)
    lines_.push_back(Let{"auto", names_.rows, name(first_operand(a))});
  else
    lines_.push_back("const auto " + names_.rows + " = [&](int64_t " + names_.m + ") { return " + address(a, {"k"}) +
                     "; };");
}

/// The second operand is a packed weight, the same for the whole batch: batch and rows become one dimension.
Statements ContractionWriter::shared_panels() {
  Shape s = extents();
  const std::string panels = address(panels_site(IndexList(s.batch.size())), {});
  const Dims b_dims = context_.dims(op_.inputs[1]);
  const Dims a_dims = context_.dims(op_.inputs[0]);
  const TensorType& result_type = body_.type(root_);
  s.m_text = count_text(context_, result_type, 0, result_type.ndim() - 1);
  IndexDims rows = context_.extents(root_);
  rows.pop_back();
  const IndexExpr m = index_variable(names_.m, rows.count()), k = index_variable("k", 0, s.k - 1);
  IndexList result = unravel(m, rows), a_index = result;
  result.push_back(column(s.n));
  a_index.push_back(k);
  // A's own batch dims may be fewer.
  a_index.erase(a_index.begin(), a_index.begin() + static_cast<long>(a_index.size() - a_dims.size()));
  for (size_t d = 0; d < a_dims.size(); ++d)
    if (a_dims[d] == 1) a_index[d] = 0;
  after_.reach(result);
  const Site a = rows_site(a_index, s.k);
  context_.need({Argument::Kind::Team});
  lines_.push_back(contraction_text(s, b_dims[b_dims.size() - 2]));
  declare_rows(a);
  // Tiles of few rows take as long to compile as the others, so they are instantiated only if needed.
  const bool is_few = !rows.count().is_number() || rows.count().number <= 3;
  const std::string function = std::string(is_few ? "weft::contract_few<" : "weft::contract<") + type();
  Statements epilogue = put(s, function + ">(team, " + names_.extents + ", " + names_.rows + ", " + panels + ", [=](" +
                                   sums_parameters(names_.n0) + ") {");
  append(lines_, std::move(epilogue));
  return lines_;
}

/// The weight has few bits: its words and terms are in panels, and k is divided into blocks.
Statements ContractionWriter::block_product(const BlockProduct& strategy) {
  const TensorType &type = body_.type(root_), &a_type = body_.type(op_.inputs[0]);
  const Dims a_dims = context_.dims(op_.inputs[0]);
  const int64_t blocks = a_dims[a_dims.size() - 2], size = a_dims.back();
  IndexDims rows = context_.extents(root_);
  rows.pop_back();
  Shape s{{}, rows.count().high(), context_.dims(root_).back(), blocks * size, "", "", "", ""};
  s.m_text = count_text(context_, type, 0, type.ndim() - 1);
  s.n_text = bound_text(context_, type, type.ndim() - 1, s.n);
  s.k_text = count_text(context_, a_type, a_type.ndim() - 2, a_type.ndim());
  const IndexExpr k = index_variable("k", 0, s.k - 1);
  IndexList result = unravel(index_variable(names_.m, rows.count()), rows), a_index = result;
  a_index.push_back(quotient(k, size)), a_index.push_back(digit(k, 1, size));
  result.push_back(column(s.n));
  after_.reach(result);
  const Site a = rows_site(a_index, s.k);
  context_.need({Argument::Kind::Team});
  context_.need_header("block_product.h");
  lines_.push_back(contraction_text(s, s.k));
  declare_rows(a);
  const bool is_few = !rows.count().is_number() || rows.count().number <= 3;
  const std::string weight = context_.names.unique("weight");
  lines_.push_back("const weft::BlockWeight " + weight + "{.words = " + context_.parameter_name(strategy.weight) +
                   ", .terms = " + context_.parameter_name(strategy.terms) + ", .size = " + std::to_string(size) +
                   "};");
  append(lines_, put(s, std::string(is_few ? "weft::contract_few_blocks<" : "weft::contract_blocks<") +
                            std::to_string(strategy.bits) + ">(team, " + names_.extents + ", " + names_.rows + ", " +
                            weight + ", [=](" + sums_parameters(names_.n0) + ") {"));
  return lines_;
}

/// The index of an operand's element. Its leading dimensions may be fewer than the product's, or of extent 1.
IndexList ContractionWriter::operand_index(ValueId value, const IndexList& lead, const IndexExpr& row,
                                           const IndexExpr& column) const {
  const Dims dims = context_.dims(value);
  IndexList index(dims.size());
  for (size_t d = 0; d + 2 < dims.size(); ++d)
    index[d] = dims[d] == 1 ? IndexExpr(0) : lead[lead.size() - (dims.size() - 2) + d];
  index[dims.size() - 2] = row, index[dims.size() - 1] = column;
  return index;
}

/// The leading index of a result, in the runtime's numbering of matrices. Also finds the places of the epilogue.
IndexList ContractionWriter::start_batch(const Shape& s) {
  const IndexList lead = unravel(index_variable(names_.batch, s.batch.count()), s.batch);
  IndexList result = lead;
  result.push_back(row(s)), result.push_back(column(s.n));
  after_.reach(result);
  return lead;
}

/// The lambda that returns the first operand of a matrix of the batch.
void ContractionWriter::rows_of_batch(const Shape& s, const IndexList& lead) {
  const IndexExpr k = index_variable("k", context_.extents(op_.inputs[0]).back());
  const IndexList index = operand_index(op_.inputs[0], lead, row(s), k);
  std::optional<Site> a = site(op_.inputs[0], index);
  if (!a || !stride_of(a->offset, names_.m).affine || !stride_of(a->offset, "k").affine)
    a = array_site(op_.inputs[0], index, "a_rows");
  lines_.push_back("const auto " + names_.rows + " = [&](" + any_batch() + ") { return " + first_operand(*a) + "; };");
}

/// The call of one of the runtime's products of a batch; `second` names the lambda that returns the second operand.
Statements ContractionWriter::batch_call(const Shape& s, const std::string& function, const std::string& second) {
  return batch_call_of(s, function + "<" + type() + ">", second);
}

/// The same for few terms, whose tiles store their sums themselves. In their order, a panel ahead is not the next one,
/// so there is no prefetch.
Statements ContractionWriter::short_batch_call(const Shape& s, const std::string& second) {
  context_.need_header("short_product.h");
  fetches_ahead_ = false;
  const std::string columns = s.n_text == std::to_string(s.n) ? s.n_text : "0";  // of a ragged slice: known at run time
  return batch_call_of(s, std::string("contract_short_batch<") + type() + ", " + columns + ">", second);
}

Statements ContractionWriter::batch_call_of(const Shape& s, const std::string& function, const std::string& second) {
  context_.need({Argument::Kind::Team});
  append(lines_, put(s, "weft::" + function + "(team, " + s.batch_text + ", " + names_.extents + ", " + names_.rows +
                            ", " + second + ", [=](" + any_batch() + ", " + sums_parameters(names_.n0) + ") {"));
  return lines_;
}

/// Start of the panels of a matrix of the packed weight. They may be stored in 16 bits; a tile converts them.
Site ContractionWriter::panels_site(const IndexList& lead) {
  const Load load = *context_.load_of(op_.inputs[1], operand_index(op_.inputs[1], lead, 0, 0));
  return {context_.parameter_name(load.parameter), load.offset, &context_.kernel.parameters[load.parameter]};
}

/// The second operand is a packed weight with panels for each matrix of the batch.
Statements ContractionWriter::panels_of_batch() {
  const Shape s = extents();
  const IndexList lead = start_batch(s);
  const Dims b_dims = context_.dims(op_.inputs[1]);
  const Site panels = panels_site(lead);
  lines_.push_back(contraction_text(s, b_dims[b_dims.size() - 2]));
  rows_of_batch(s, lead);
  lines_.push_back("const auto " + names_.panels + " = [&](" + any_batch() + ") { return " + address(panels, {}) +
                   "; };");
  return batch_call(s, "contract_packed_batch", names_.panels);
}

Statements ContractionWriter::packed() {
  const Dims b_dims = context_.dims(op_.inputs[1]);
  const bool is_shared = element_count({b_dims.begin(), b_dims.end() - 2}) == 1;
  return is_shared ? shared_panels() : panels_of_batch();
}

Statements ContractionWriter::strided(const StridedProduct& strategy) {
  const Shape s = extents();
  const IndexList lead = start_batch(s);
  const IndexDims extents = context_.extents(op_.inputs[1]);
  const IndexExpr n = index_variable(names_.n, extents.back()), k = index_variable("k", extents[extents.size() - 2]);
  const IndexList index = operand_index(op_.inputs[1], lead, k, n);
  std::optional<Site> b = site(op_.inputs[1], index);
  if (!b || !stride_of(b->offset, names_.n).affine || !stride_of(b->offset, "k").affine)
    b = array_site(op_.inputs[1], index, "b_columns");
  lines_.push_back(contraction_text(s));
  rows_of_batch(s, lead);
  const std::string columns = "weft::Unpacked<" + std::string(type()) + ">{" + address(*b, {names_.n, "k"}) + ", " +
                              stride_of(b->offset, names_.n).coefficient.text() + ", " +
                              stride_of(b->offset, "k").coefficient.text() + "}";
  const std::string head = " = [&](" + any_batch() + ") { return ";
  if (!strategy.kept_bytes) {
    lines_.push_back("const auto " + names_.columns + head + columns + "; };");
    return strategy.is_short ? short_batch_call(s, names_.columns) : batch_call(s, "contract_batch", names_.columns);
  }
  const Argument kept{Argument::Kind::Panels};
  context_.need(kept);
  lines_.push_back("const auto " + names_.panels + head + "weft::keep_panels(" + context_.argument_name(kept) + ", " +
                   columns + ", " + names_.extents + ".n, " + names_.extents + ".k); };");
  return strategy.is_short ? short_batch_call(s, names_.panels) : batch_call(s, "contract_packed_batch", names_.panels);
}

/// The rows of the first operand with `together` adjacent elements of k: the operand itself if it is stored so, else an
/// array.
std::string ContractionWriter::rows_of_elements(int64_t together) {
  const ValueId value = op_.inputs[0];
  const IndexDims dims = context_.extents(value);
  const IndexList index = element_of(dims, "x");
  const std::optional<Load> load = context_.load_of(value, index);
  if (load && context_.dims(value).back() % together == 0 && load->offset == linear_index(index, dims))
    return context_.parameter_name(load->parameter);
  Storage storage;
  const int last = static_cast<int>(dims.size()) - 1;
  for (int d = 0; d < last; ++d) storage.parts.push_back({d, 1});
  storage.parts.push_back({last, together}), storage.parts.push_back({last, 1});
  append(lines_, write_array(context_, value, names_.rows, storage, memory_type(body_.type(value).dtype)));
  return names_.rows;
}

/// A product of 8-bit integers, or of pairs of bfloat16, is a convolution whose windows are the rows, with k as
/// channels.
Statements ContractionWriter::product_of_elements(const PackedProduct& strategy) {
  const Shape s = extents();
  const TensorType& type = body_.type(root_);
  IndexDims rows = context_.extents(root_);
  rows.pop_back();
  context_.need_header("direct_convolution.h");
  IndexList result = unravel(index_variable(names_.m, rows.count()), rows);
  result.push_back(column(s.n));
  after_.reach(result);
  const std::string a = rows_of_elements(strategy.together);
  context_.need({Argument::Kind::Team});
  const std::string window = context_.names.unique("window"), many = count_text(context_, type, 0, type.ndim() - 1);
  lines_.push_back((rows.count().is_number() ? "constexpr weft::SlidingWindow " : "const weft::SlidingWindow ") +
                   window + "{.in = {1, 1, " + many + "}, .out = {1, 1, " + many +
                   "}, .taps = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .pad = {0, 0, 0}};");
  const std::string convolution =
      declare_convolution(1, 1, (s.k + strategy.together - 1) / strategy.together, s.n_text);
  const std::string filters = s.n_text == std::to_string(s.n) ? convolution + ".filters" : "0";
  const Shape shape{{}, rows.count().high(), s.n, 1, "", "", "", ""};
  append(lines_, put(shape, convolve_call(window, convolution, filters, a, context_.parameter_name(strategy.weight),
                                          strategy.together) +
                                "[=](" + sums_parameters(names_.n0) + ") {"));
  return lines_;
}

Statements write_body(KernelContext& context, const PackedProduct& strategy, Writer<PackedProduct>) {
  ContractionWriter writer(context);
  return strategy.together > 1 ? writer.product_of_elements(strategy) : writer.packed();
}

Statements write_body(KernelContext& context, const BlockProduct& strategy, Writer<BlockProduct>) {
  return ContractionWriter(context).block_product(strategy);
}

Statements write_body(KernelContext& context, const StridedProduct& strategy, Writer<StridedProduct>) {
  return ContractionWriter(context).strided(strategy);
}

}  // namespace weftc
