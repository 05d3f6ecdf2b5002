// The nests of kernels without a dense contraction. A nest is built inwards: the loops of its space, the reductions of
// a row, then the stored elements. Elements (element.h) puts statements into the outermost loop that has their
// variables, so that values common to a row are computed once a row.
#include "backend/nest.h"

#include <algorithm>

#include "backend/iteration_space.h"
#include "backend/outer_loops.h"
#include "ir/kernel/column_sums.h"
#include "ir/op_def.h"

namespace weftc {

namespace {
/// Dimensions of a space as axes: neighbouring static ones become one axis.
struct AxisRun {
  LoopAxis axis;
  std::vector<int64_t> dims;
};
using LoopOrder = std::vector<int64_t>;
/// The dimensions in the order of a storage in memory, so that neighbouring iterations store neighbours.
LoopOrder loop_order(const Storage& storage, size_t ndim) {
  LoopOrder order(ndim);
  for (size_t d = 0; d < ndim; ++d)
    order[d] = storage.parts.size() == ndim ? storage.parts[d].dim : static_cast<int64_t>(d);
  return order;
}
/// The same for the first output of a space.
LoopOrder loop_order(const KernelContext& context, const IterationSpace& space) {
  const Parameter* to =
      space.outputs.empty() ? nullptr : &context.kernel.parameters[context.output_parameter(space.outputs[0])];
  const bool is_whole = to && context.dims(to->type) == space.dims;
  return loop_order(is_whole ? to->storage : Storage{}, space.dims.size());
}
std::vector<AxisRun> axis_runs(KernelContext& context, const IterationSpace& space, const LoopOrder& order,
                               bool reduced, const std::string& prefix) {
  std::vector<AxisRun> runs;
  bool joins = false;
  for (int64_t d : order) {
    if (space.is_reduced(static_cast<size_t>(d)) != reduced) continue;
    const Expr bound = run_bound(context, space.type, static_cast<size_t>(d));
    if (bound.empty() && joins) {
      runs.back().axis.extent *= space.extent_of(d);
      runs.back().dims.push_back(d);
      continue;
    }
    std::string unique = prefix + (runs.empty() ? "" : std::to_string(runs.size() + 1));
    if (context.names.has(unique)) unique += "_at";
    runs.push_back({{unique, space.extent_of(d), bound, run_scale(context, space.type, static_cast<size_t>(d))}, {d}});
    joins = bound.empty();
  }
  return runs;
}
void fill(IndexList& index, const AxisRun& run, const IndexExpr& at, const IterationSpace& space) {
  Dims extents;
  for (int64_t d : run.dims) extents.push_back(space.extent_of(d));
  const IndexList parts = unravel(at, extents);
  for (size_t i = 0; i < run.dims.size(); ++i)
    index[run.dims[i]] = space.start.empty() ? parts[i] : parts[i] + space.start[static_cast<size_t>(run.dims[i])];
}
}  // namespace

/// Stores an element at its place in the operand: an all-gather restores the rank's digits.
static void store_output(Elements& elements, KernelContext& context, size_t output, IndexList at,
                         const Element& element) {
  const ValueId value = context.body.outputs()[output].value;
  const Op& op = context.body.producer_op(value);
  if (op.kind == OpKind::AllGather) {
    const std::vector<int64_t>& axes = op.ints("axes");
    const auto whole = [&](int axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); };
    const TensorType& from = context.body.type(op.inputs[0]);
    for (int d = 0; d < from.ndim(); ++d)
      at[d] = with_digits(at[d], context.digits(from, d), whole, context.coordinates());
  }
  elements.store(output, at, element);
}

/// True if an operand has the shape and the element type of an output: the output may then share its memory.
static bool may_lie_in_operand(const KernelContext& context, size_t output) {
  const std::vector<Parameter>& parameters = context.kernel.parameters;
  const Parameter& to = parameters[context.output_parameter(output)];
  return std::any_of(parameters.begin(), parameters.begin() + static_cast<int64_t>(context.body.inputs().size()),
                     [&](const Parameter& from) {
                       return !from.weight && from.type.dtype == to.type.dtype &&
                              context.dims(from.type) == context.dims(to.type);
                     });
}

/// An output and the index at which its element is stored.
using Put = std::pair<size_t, IndexList>;

/// Reads all operands of the stores before the first store, because an output may share an input's memory. Values
/// without a name get one. If one lane stores for a whole row, the other lanes have read by then.
static void store_all(Elements& elements, KernelContext& context, const std::vector<Put>& puts) {
  std::vector<Element> values;
  bool has_operand_memory = false;
  for (const auto& [output, at] : puts) {
    const ValueId value = context.computed_value(output);
    Element element = elements.at(value, at);
    if (puts.size() > 1 && !element.expr.is_simple()) element = elements.named(value, element);
    values.push_back(std::move(element));
    has_operand_memory |= may_lie_in_operand(context, output);
  }
  const Lanes lanes = elements.scopes.lanes;
  const bool is_shared_row = elements.scopes.current->uniform && (lanes == Lanes::Warp || lanes == Lanes::Block);
  if (is_shared_row && has_operand_memory) elements.scopes.current->put(Barrier{lanes_loop(lanes)});
  for (size_t i = 0; i < puts.size(); ++i) store_output(elements, context, puts[i].first, puts[i].second, values[i]);
}

/// Stores values in the last loop over a row if that loop computes them anyway, such as exp(x - max) next to the sum of
/// a Softmax that is divided later. No operand is read after that loop, since outputs may share their memory. Returns
/// false and stores nothing unless it is possible for all outputs.
static bool store_in_loop(Elements& elements, const std::vector<Put>& puts, Scope& row, int loop) {
  std::vector<Scope::RowValue*> values;
  for (const auto& [output, at] : puts) {
    values.push_back(elements.storable(output, at, row, loop));
    if (!values.back()) return false;
  }
  for (size_t i = 0; i < puts.size(); ++i) elements.store_there(puts[i].first, puts[i].second, *values[i]);
  return true;
}

/// Index of a row output: the kept dims alone, or with zeros for the reduced ones.
static IndexList row_index(const KernelContext& context, const IterationSpace& space, size_t output,
                           const IndexList& index) {
  const size_t ndim = context.dims(context.computed_value(output)).size();
  IndexList at;
  for (size_t d = 0; d < index.size(); ++d) {
    const bool reduced = space.is_reduced(d);
    if (!reduced || ndim == space.dims.size()) at.push_back(reduced ? IndexExpr(0) : index[d]);
  }
  return at;
}

/// The reductions of a row, in order, before they are read: each loop may use values kept by earlier loops.
static void write_reductions(Elements& elements, KernelContext& context, const IterationSpace& space,
                             const IndexList& index) {
  for (OpId id : context.body.order()) {
    const Op& op = context.body.op(id);
    if (category(op) != Category::Reduction || !op.has("axes") || op.ints("axes") != space.reduced) continue;
    if (context.extents(op.inputs[0]) != space.extents) continue;
    IndexList at;
    for (size_t d = 0; d < index.size(); ++d) {
      const bool reduced = space.is_reduced(d);
      if (!reduced || op.integer("keepdims")) at.push_back(reduced ? IndexExpr(0) : index[d]);
    }
    elements.at(op.outputs[0], at);
  }
}

/// How many neighbours of the innermost dimension a thread takes together, to move 16 bytes at once. Only for kernels
/// that move and compute elements, over large enough spaces.
static int64_t vector_width(const KernelContext& context, const IterationSpace& space) {
  constexpr int64_t kLeastElements = 4096;
  if (space.dims.empty() || context.reads_peers()) return 1;
  int64_t bytes = 1, count = 1;
  for (size_t d = 0; d < space.dims.size(); ++d) count *= space.extent_of(static_cast<int64_t>(d));
  for (size_t o : space.outputs)
    bytes = std::max(bytes, dtype_bytes(context.body.type(context.computed_value(o)).dtype));
  for (OpId id : context.body.order()) {
    const Category c = category(context.body.op(id));
    if (c != Category::Pointwise && c != Category::View && c != Category::Source && c != Category::Index) return 1;
  }
  const int64_t width = 16 / bytes, last = space.extent_of(static_cast<int64_t>(space.dims.size()) - 1);
  return count >= kLeastElements && last % width == 0 ? width : 1;
}

/// The same for the elements of a row, if all are adjacent and every lane of a warp has some.
static int64_t row_vector_width(const KernelContext& context, const IterationSpace& space, int64_t row) {
  const int64_t ndim = static_cast<int64_t>(space.dims.size()),
                first = ndim - static_cast<int64_t>(space.reduced.size());
  if (space.reduced.empty() || context.reads_peers()) return 1;
  if (*std::min_element(space.reduced.begin(), space.reduced.end()) < first) return 1;
  int64_t bytes = 1;
  for (const Parameter& parameter : context.kernel.parameters)
    if (!parameter.type.shape.empty() && context.dims(parameter.type).back() == space.dims.back())
      bytes = std::max(bytes, dtype_bytes(parameter.type.dtype));
  const int64_t width = 16 / bytes;
  return row % width == 0 && row / width >= 32 ? width : 1;
}

/// The threads that share the rows of a space on a grid; in a space without rows each thread has an element.
static Lanes lanes_for(const IterationSpace& space, int64_t row) {
  if (space.reduced.empty()) return Lanes::Thread;
  return device_row_team(row) == RowTeam::Warp ? Lanes::Warp : Lanes::Block;
}

/// The work of an element, in elements of a kernel that only adds. exp, tanh and the like count as two elements more
/// (0.5 to 0.8 ns on one Zen 4 core; adding vectors in its caches takes 0.25 ns).
static int64_t element_work(const KernelContext& context) {
  int64_t work = 1;
  for (OpId id : context.body.order()) {
    const Op& op = context.body.op(id);
    work += category(op) == Category::Pointwise && op_def(op).cost == ScalarCost::Function ? 2 : 0;
  }
  return work;
}

/// Builds the nest of a space. Columns of a matrix are summed several at a time: one alone would read one element of
/// each cache line.
///
///   for row < 96:                                     #pragma omp simd
///     float sum = 0;                                  for row < 96:
///     #pragma omp simd reduction(+ : sum)      ->       float sum = 0;
///     for c < 3136: sum += x[c * 96 + row];             for c < 3136: sum += x[c * 96 + row];
static void build_space(KernelContext& context, const IterationSpace& space, Elements& elements, Cuts& cuts) {
  const LoopOrder order = loop_order(context, space);
  const std::vector<AxisRun> rows = axis_runs(context, space, order, false, space.reduced.empty() ? "i" : "row");
  OuterLoops outer;
  for (const AxisRun& run : rows) outer.axes.push_back(run.axis);
  for (int64_t d : space.reduced) outer.work *= space.dims[d];
  if (context.facts().has_grid) elements.scopes.lanes = lanes_for(space, outer.work);
  if (elements.scopes.lanes == Lanes::Thread) outer.vector = vector_width(context, space);
  if (elements.scopes.lanes != Lanes::Host) elements.scopes.row_vector = row_vector_width(context, space, outer.work);
  if (outer.vector > 1 && !outer.axes.back().bound.empty()) outer.vector = 1;
  if (outer.vector > 1) {
    cuts.add(outer.axes.back(), outer.vector);
    if (cuts.loops(outer.axes.back()).back().extent != outer.vector) outer.vector = 1;
  }
  if (elements.scopes.lanes == Lanes::Host) outer.work *= element_work(context);
  const bool is_together = elements.scopes.lanes == Lanes::Host && !space.reduced.empty() && sums_down_columns(context);
  elements.scopes.rows_together = is_together;
  if (is_together) outer.together = 16;
  OpenOuter open = open_outer(elements.scopes, outer, cuts, context);
  IndexList index(space.dims.size());
  for (size_t r = 0; r < rows.size(); ++r) fill(index, rows[r], open.index[r], space);
  write_reductions(elements, context, space, index);
  std::vector<Put> of_row, of_elements;
  for (size_t o : space.row_outputs) of_row.emplace_back(o, row_index(context, space, o, index));
  const int last_loop = elements.scopes.opened;
  store_all(elements, context, of_row);
  if (!space.outputs.empty()) {
    std::vector<LoopScopes::Open> inner;
    for (const AxisRun& run : axis_runs(context, space, order, true, "c")) {
      Scope* under = inner.empty() ? &open.inner() : &inner.back().inner();
      inner.push_back(elements.scopes.open(under, run.axis, {.kind = LoopKind::Vector}, true));
      fill(index, run, inner.back().index, space);
    }
    for (size_t o : space.outputs)
      of_elements.emplace_back(o, *place_in(context, context.computed_value(o), space.extents, index));
    const bool is_done = store_in_loop(elements, of_elements, open.inner(), last_loop);
    if (!is_done) store_all(elements, context, of_elements);
    for (auto loop = inner.rbegin(); loop != inner.rend(); ++loop)
      if (is_done)
        elements.scopes.drop(*loop);
      else
        elements.scopes.close(*loop);
  }
  if (For* loop = open.inner().loop(); loop && elements.scopes.lanes == Lanes::Host)
    loop->kind = is_together ? LoopKind::Together : LoopKind::Vector;
  close_outer(elements.scopes, open);
}

static void build_array(KernelContext& context, ValueId value, const std::string& array, const IterationSpace& space,
                        const Storage& storage, Elements& elements, const Cuts& cuts) {
  // Few neighbours are not worth a loop of their own.
  constexpr int64_t kLeastInside = 16;
  const bool is_wide = !storage.parts.empty() && space.extent_of(storage.parts.back().dim) >= kLeastInside;
  const LoopOrder order = loop_order(is_wide ? storage : Storage{}, space.dims.size());
  const std::vector<AxisRun> runs = axis_runs(context, space, order, false, "i");
  OuterLoops outer;
  for (const AxisRun& run : runs) outer.axes.push_back(run.axis);
  OpenOuter open = open_outer(elements.scopes, outer, cuts, context);
  IndexList index(space.dims.size());
  for (size_t r = 0; r < runs.size(); ++r) fill(index, runs[r], open.index[r], space);
  const Element element = elements.at(value, index);
  const IndexExpr at = storage.offset(storage.by_bounds ? IndexDims(space.dims) : space.extents, index);
  context.need_lengths(at);
  open.inner().put(Store{weftc::element(array, at), element.expr});
  if (For* loop = open.inner().loop(); loop && elements.scopes.lanes == Lanes::Host) loop->kind = LoopKind::Vector;
  close_outer(elements.scopes, open);
}

Statements write_array(KernelContext& context, ValueId value, const std::string& array, const Storage& storage,
                       const char* element_type) {
  const IterationSpace whole{
      .type = context.body.type(value), .dims = context.dims(value), .extents = context.extents(value)};
  const std::string type = element_type ? element_type : compute_type(whole.type.dtype);
  const std::string owner = context.names.unique(array + "_memory");
  const int64_t count = element_count(whole.dims), room = storage.is_row_major() ? count : storage.elements(whole.dims);
  Statements statements = {"const weft::Scratch<" + type + "> " + owner + "(" + std::to_string(room) + ");",
                           type + "* const " + array + " = " + owner + ".get();"};
  if (room > count) statements.push_back("std::fill_n(" + array + ", " + std::to_string(room) + ", " + type + "());");
  for (const IterationSpace& space : segments(context, whole))
    append_part(statements, build_nest(context, [&](Elements& elements, Cuts& cuts) {
                  build_array(context, value, array, space, storage, elements, cuts);
                }));
  return statements;
}

Statements write_nests(KernelContext& context) {
  std::vector<IterationSpace> parts;
  for (const IterationSpace& whole : spaces_of(context))
    for (IterationSpace& part : segments(context, whole)) parts.push_back(std::move(part));
  Statements statements;
  for (const IterationSpace& space : parts) {
    Statements part =
        build_nest(context, [&](Elements& elements, Cuts& cuts) { build_space(context, space, elements, cuts); });
    if (parts.size() == 1) return part;
    append_part(statements, std::move(part));
  }
  return statements;
}

}  // namespace weftc
