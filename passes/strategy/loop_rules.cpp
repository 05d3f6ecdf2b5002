// Kernels that are loops over elements: views that transpose, scatters, exchanges over the peer table, rows, and single
// elements.
#include <algorithm>

#include "ir/op_def.h"
#include "passes/strategy/strategy_rules.h"

namespace weftc {

namespace {

bool only_views(const KernelBody& body) {
  for (OpId id = body.body.first(); id; id = body.body.next(id)) {
    const Op& op = body.body.op(id);
    if (op.kind != OpKind::Input && category(op) != Category::View) return false;
  }
  return body.body.outputs().size() == 1 && body.kernel.extents.empty();
}

/// The full shape of the first reduction: how many elements a row of it has.
int64_t row_elements(const KernelBody& body) {
  for (OpId id = body.body.first(); id; id = body.body.next(id)) {
    const Op& op = body.body.op(id);
    if (category(op) != Category::Reduction || !op.has("axes") || op.ints("axes").empty()) continue;
    const Dims dims = body.dims(op.inputs[0]);
    int64_t elements = 1;
    for (int64_t d : op.ints("axes")) elements *= dims[static_cast<size_t>(d)];
    return elements;
  }
  return 1;
}

Verdict transposition(const StrategyContext& context) {
  constexpr int64_t kLeastElements = 4096, kLeastExtent = 8;
  const KernelBody& body = context.body;
  if (!context.target.has_grid() || !only_views(body)) return {};
  const ValueId result = body.body.outputs()[0].value;
  const Dims dims = body.dims(result);
  if (element_count(dims) == 0 || dims.size() < 2) return {};
  IndexList index;
  const IndexDims extents = body.extents(body.body.type(result));
  for (size_t d = 0; d < dims.size(); ++d) index.push_back(index_variable("o" + std::to_string(d), extents[d]));
  const std::optional<Load> load = body.load_of(result, index);
  if (!load) return {};
  const auto stride = [&](size_t d) { return stride_of(load->offset, "o" + std::to_string(d)); };
  const size_t last = dims.size() - 1;
  if (!stride(last).affine || stride(last).coefficient == 1) return {};
  std::optional<size_t> row;  // the longest dimension that is contiguous in the operand
  for (size_t d = 0; d < last; ++d)
    if (stride(d).affine && stride(d).coefficient == 1 && dims[d] > (row ? dims[*row] : 1)) row = d;
  if (!row) return {};
  const bool is_small = element_count(dims) < kLeastElements || dims.back() < kLeastExtent || dims[*row] < kLeastExtent;
  return {Transposition{*row}, is_small ? "tiles of 32 x 32 elements would be mostly empty" : ""};
}

Verdict scan(const StrategyContext& context) {
  constexpr int64_t kFewLines = 4096, kLongLine = 512;
  const KernelBody& body = context.body;
  if (!has_op(body.body, {Category::Scan})) return {};
  const ValueId root = scan_of(body.body);
  if (!root) return refused("the kernel has several loops that sum");
  const Dims dims = body.dims(root);
  const int axis = static_cast<int>(body.body.producer_op(root).integer("axis"));
  if (element_count(dims) == 0) return refused("it has no elements");
  // Lines that lie side by side are one loop.
  const TensorType& type = body.body.type(root);
  if (body.has_ragged(type, 1, axis) || body.has_ragged(type, axis + 2, type.ndim()))
    return refused("an inner dimension is sliced unevenly");
  if (!indices_after(body, root, IndexList(dims.size())))
    return refused("a result is not reached from the sums by views and pointwise ops");
  const int64_t length = dims[static_cast<size_t>(axis)], lines = element_count(dims) / length;
  return {Scan{context.target.has_grid() && lines < kFewLines && length >= kLongLine}, ""};
}

/// Updates go to the places that their indices give: an element does not know which updates it gets.
static bool scatters(const Graph& body) { return has_op(body, {OpKind::ScatterElements, OpKind::ScatterND}); }

Verdict scatter(const StrategyContext& context) {
  return scatters(context.body.body) ? Verdict{Scatter{}, ""} : Verdict{};
}

/// The operands lie in memory as they were given: TreeSums is the only op of its kernel.
Verdict tree_walk(const StrategyContext& context) {
  return has_op(context.body.body, {OpKind::TreeSums}) ? Verdict{TreeWalk{}, ""} : Verdict{};
}

Verdict selection(const StrategyContext& context) {
  return has_op(context.body.body, {OpKind::TruePositions}) ? Verdict{Selection{}, ""} : Verdict{};
}

Verdict box_selection(const StrategyContext& context) {
  return has_op(context.body.body, {OpKind::BoxChoice}) ? Verdict{BoxSelection{}, ""} : Verdict{};
}

/// How many elements are chosen before one decides where it goes.
bool selects(const Graph& body) { return has_op(body, {OpKind::TruePositions, OpKind::BoxChoice}); }

/// True for a loop, all steps of which every element goes through.
static bool recurs(const Graph& body) { return has_op(body, {OpKind::Loop}); }

Verdict recurrence(const StrategyContext& context) {
  constexpr int64_t kVectors = 8;  // so that vectors hide each other's latency, and memory is read in long pieces
  if (!recurs(context.body.body)) return {};
  return {Recurrence{context.target.has_grid() ? 1 : kVectors * std::max(4, context.target.vector_floats)}, ""};
}

/// Only an exchange has the addresses of its peers' windows, and barriers around its writes to them.
bool exchanges(const StrategyContext& context) { return !context.body.group().empty(); }

Verdict peer_exchange(const StrategyContext& context) {
  const bool sums_products = has_op(context.body.body, {Category::Contraction});
  return exchanges(context) && !sums_products ? Verdict{PeerExchange{}, ""} : Verdict{};
}

bool chooses(const Graph& body) { return has_op(body, {OpKind::TopK}); }

/// The thread that has a line writes its elements to their places.
Verdict top_k(const StrategyContext& context) {
  constexpr int64_t kWarpPasses = 8, kWarpLine = 1024;
  const KernelBody& body = context.body;
  if (!chooses(body.body)) return {};
  if (!context.target.has_grid()) return {TopK{RowTeam::Thread}, ""};
  for (OpId id = body.body.first(); id; id = body.body.next(id)) {
    const Op& op = body.body.op(id);
    if (op.kind != OpKind::TopK) continue;
    const int64_t length = body.dims(op.inputs[0])[static_cast<size_t>(op.integer("axis"))];
    const bool is_short = op.integer("k") <= kWarpPasses && length <= kWarpLine;
    return {TopK{is_short ? RowTeam::Warp : RowTeam::Block}, ""};
  }
  return {};
}

Verdict rows(const StrategyContext& context) {
  const Graph& body = context.body.body;
  if (chooses(body)) return refused("it chooses elements");
  if (!has_op(body, {Category::Reduction}) || has_op(body, {Category::Contraction, Category::Scan})) return {};
  if (exchanges(context)) return refused("it exchanges data with other ranks");
  return {Rows{context.target.has_grid() ? device_row_team(row_elements(context.body)) : RowTeam::Thread}, ""};
}

Verdict elementwise(const StrategyContext& context) {
  if (has_op(context.body.body, {Category::Contraction, Category::Reduction, Category::Scan})) return {};
  if (scatters(context.body.body)) return refused("it scatters");
  if (has_op(context.body.body, {OpKind::TreeSums})) return refused("it walks down trees");
  if (recurs(context.body.body)) return refused("it goes through steps");
  if (selects(context.body.body)) return refused("it selects elements");
  if (exchanges(context)) return refused("it exchanges data with other ranks");
  return {Elementwise{}, ""};
}

constexpr StrategyRule kExchanges[] = {
    {Transposition::kName, transposition, "tensors that are only turned, on a device"},
    {PeerExchange::kName, peer_exchange, "kernels that exchange data with other ranks"},
    {Scatter::kName, scatter, "scatters"},
    {TreeWalk::kName, tree_walk, "tree ensembles"},
    {Selection::kName, selection, "selections by a mask"},
    {BoxSelection::kName, box_selection, "boxes of which the best are selected"},
    {Recurrence::kName, recurrence, "loops whose body is element-wise"},
};
constexpr StrategyRule kLoops[] = {
    {Scan::kName, scan, "running sums"},
    {TopK::kName, top_k, "TopK"},
    {Rows::kName, rows, "reductions without a product or running sum"},
    {Elementwise::kName, elementwise, "kernels without a sum"},
};

}  // namespace

std::span<const StrategyRule> exchange_rules() { return kExchanges; }
std::span<const StrategyRule> loop_rules() { return kLoops; }

Verdict plain_loops(const StrategyContext& context) {
  if (scatters(context.body.body)) return refused("it scatters");
  if (has_op(context.body.body, {OpKind::TreeSums})) return refused("it walks down trees");
  if (recurs(context.body.body)) return refused("it goes through steps");
  if (selects(context.body.body)) return refused("it selects elements");
  if (chooses(context.body.body)) return refused("it chooses elements");
  return {PlainLoops{"the schedule asks for it"}, ""};
}

}  // namespace weftc
