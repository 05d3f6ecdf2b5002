#include "backend/nest.h"

#include <algorithm>

#include "ir/op_def.h"

namespace weftc {

/// Below this many elements another thread costs more than it saves.
static constexpr int64_t kTaskWork = 8192;

std::optional<IndexList> place_in(const KernelContext& context, ValueId output, const Dims& space,
                                  const IndexList& index) {
  const Dims dims = context.dims(output);
  if (dims == space) return index;
  const Op& op = context.body.producer_op(output);
  if (op.inputs.empty()) return {};
  if (category(op) == Category::Pointwise) {
    for (ValueId input : op.inputs)
      if (context.dims(input) == dims)
        if (std::optional<IndexList> at = place_in(context, input, space, index)) return at;
    return {};
  }
  if (category(op) != Category::View && category(op) != Category::Collective) return {};
  const Dims from = context.dims(op.inputs[0]);
  const bool is_transpose = op.kind == OpKind::Transpose;
  const bool is_reshape = op.kind == OpKind::Reshape || op.kind == OpKind::Squeeze || op.kind == OpKind::Unsqueeze ||
                          op.kind == OpKind::Flatten;
  if (!is_transpose && !is_reshape) return {};
  const std::optional<IndexList> at = place_in(context, op.inputs[0], space, index);
  if (!at) return {};
  if (is_reshape) return unravel(linear_index(*at, from), dims);
  IndexList moved(at->size());
  for (size_t d = 0; d < moved.size(); ++d) moved[d] = (*at)[static_cast<size_t>(op.ints("perm")[d])];
  return moved;
}

namespace {
struct OuterLoop {
  Loop loop;
  size_t axis;
};
std::vector<OuterLoop> flatten(const OuterLoops& outer, const Cuts& cuts) {
  std::vector<OuterLoop> loops;
  for (size_t a = 0; a < outer.axes.size(); ++a)
    for (const Loop& loop : cuts.loops(outer.axes[a]))
      if (loop.extent != 1 || !outer.axes[a].bound.empty()) loops.push_back({loop, a});
  return loops;
}
}  // namespace

/// How many leading loops are handed to the team: enough tasks for many threads, each with work of its own.
static size_t parallel_loops(const std::vector<OuterLoop>& loops, int64_t work) {
  int64_t total = work;
  for (const OuterLoop& l : loops) total *= l.loop.extent;
  if (total < 2 * kTaskWork) return 0;
  int64_t tasks = 1, rest = total;
  for (size_t i = 0; i < loops.size(); ++i) {
    tasks *= loops[i].loop.extent, rest /= loops[i].loop.extent;
    if (tasks >= 64 || rest <= kTaskWork / 64) return i + 1;
  }
  return loops.size();
}

/// How many iterations nested loops have together.
static Expr product_of(const std::vector<OuterLoop>& loops, size_t count) {
  Expr product;
  for (size_t i = 0; i < count; ++i) product = i ? binary(product, "*", loops[i].loop.bound) : loops[i].loop.bound;
  return product;
}

/// A range of tasks as runs of the last loop, which stays one that can vectorise:
///
///   for (int64_t task = begin, next; task < end; task = next) {
///     const int64_t first = task % 4096;
///     next = std::min(end, task - first + 4096);
///     const int64_t row = task / 4096;
///     for (int64_t c = first; c < first + (next - task); ++c) {
static void open_runs(LoopScopes& scopes, OpenOuter& open, const std::vector<OuterLoop>& loops,
                      const OuterLoops& outer) {
  const Loop& last = loops.back().loop;
  open.scopes.push_back(std::make_unique<Scope>(&open.inner(), TeamRuns{.run = last.bound, .body = {}}));
  Scope& turn = open.inner();
  std::vector<Loop> before;
  for (size_t i = 0; i + 1 < loops.size(); ++i) before.push_back(loops[i].loop);
  split_number(turn, binary(name("task"), "/", last.bound), before);
  for (size_t i = 0; i + 1 < loops.size(); ++i) scopes.declare_loop(loops[i].loop, outer.axes[loops[i].axis], &turn);
  const Expr end = binary(name("first"), "+", binary(name("next"), "-", name("task")));
  open.scopes.push_back(
      std::make_unique<Scope>(&turn, For{.variable = last.variable, .bound = end, .first = name("first")}));
  scopes.declare_loop(last, outer.axes[loops.back().axis], &open.inner());
}

/// Hands the leading loops to the team and opens them; true if that is all of them, declared too.
static bool open_team(LoopScopes& scopes, OpenOuter& open, const std::vector<OuterLoop>& loops, size_t parallel,
                      const OuterLoops& outer, KernelContext& context) {
  constexpr int64_t kLeastRun = 64;
  context.need({Argument::Kind::Team});
  int64_t inside = outer.work;
  for (size_t i = parallel; i < loops.size(); ++i) inside *= loops[i].loop.extent;
  const int64_t grain = std::max<int64_t>(1, kTaskWork / inside);
  open.scopes.push_back(std::make_unique<Scope>(
      &scopes.root, TeamTasks{.count = product_of(loops, parallel), .grain = grain, .body = {}}));
  scopes.floor = &open.inner();
  const bool single = parallel == 1;
  if (!single && parallel == loops.size() && loops.back().loop.extent >= kLeastRun) {
    open_runs(scopes, open, loops, outer);
    return true;
  }
  const std::string v = single ? loops[0].loop.variable : "task";
  open.scopes.push_back(
      std::make_unique<Scope>(&open.inner(), For{.variable = v, .bound = name("end"), .first = name("begin")}));
  std::vector<Loop> parts;
  for (size_t i = 0; !single && i < parallel; ++i) parts.push_back(loops[i].loop);
  split_number(open.inner(), name("task"), parts);
  return false;
}

static int64_t whole_warps(int64_t threads) { return (threads + 31) / 32 * 32; }

/// One loop over everything, which threads, warps or blocks take in turn.
static void open_grid(LoopScopes& scopes, OpenOuter& open, std::vector<OuterLoop> loops, const OuterLoops& outer,
                      KernelContext& context) {
  const Lanes lanes = scopes.lanes;
  std::optional<OuterLoop> vector;
  if (outer.vector > 1 && loops.back().loop.extent == outer.vector) vector = loops.back(), loops.pop_back();
  int64_t count = 1;
  std::vector<Loop> parts;
  for (const OuterLoop& l : loops) {
    count *= l.loop.extent;
    parts.push_back(l.loop);
  }
  if (lanes == Lanes::Thread) context.cover((count + 255) / 256, std::min<int64_t>(whole_warps(count), 256));
  if (lanes == Lanes::Warp) context.cover((count + 3) / 4, 128);
  if (lanes == Lanes::Block)
    context.cover(count, std::clamp<int64_t>(whole_warps(outer.work / scopes.row_vector), 32, 256));
  if (loops.empty()) {
    const bool row = lanes != Lanes::Thread;
    const Statement once = row ? Statement(Braces{}) : Statement(OneLane{.lanes = LoopKind::Threads, .body = {}});
    open.scopes.push_back(std::make_unique<Scope>(&scopes.root, once));
    open.inner().uniform = row;
    return;
  }
  const LoopKind kind = lanes == Lanes::Thread ? LoopKind::Threads
                        : lanes == Lanes::Warp ? LoopKind::Warps
                                               : LoopKind::Blocks;
  const std::string v =
      parts.size() == 1 ? parts[0].variable : scopes.names.unique(lanes == Lanes::Thread ? "element" : "row_all");
  open.scopes.push_back(std::make_unique<Scope>(
      &scopes.root, For{.kind = kind, .variable = v, .bound = product_of(loops, loops.size())}));
  open.inner().uniform = lanes != Lanes::Thread;
  if (parts.size() > 1) split_number(open.inner(), name(v), parts);
  for (const OuterLoop& l : loops) scopes.declare_loop(l.loop, outer.axes[l.axis], &open.inner());
  if (!vector) return;
  scopes.open_neighbours(open.scopes, vector->loop, outer.axes[vector->axis]);
}

OpenOuter open_outer(LoopScopes& scopes, const OuterLoops& outer, const Cuts& cuts, KernelContext& context) {
  OpenOuter open;
  const std::vector<OuterLoop> loops = flatten(outer, cuts);
  if (scopes.lanes != Lanes::Host) {
    open_grid(scopes, open, loops, outer, context);
    for (const LoopAxis& axis : outer.axes) open.index.push_back(Cuts::index(cuts.loops(axis)));
    scopes.current = &open.inner();
    return open;
  }
  const size_t parallel = parallel_loops(loops, outer.work);
  const bool is_open = parallel && open_team(scopes, open, loops, parallel, outer, context);
  for (size_t i = 0; !is_open && i < loops.size(); ++i) {
    const Loop& loop = loops[i].loop;
    if (i >= parallel) {
      Scope* parent = open.scopes.empty() ? &scopes.root : &open.inner();
      open.scopes.push_back(std::make_unique<Scope>(parent, For{.variable = loop.variable, .bound = loop.bound}));
    }
    scopes.declare_loop(loop, outer.axes[loops[i].axis], &open.inner());
  }
  if (open.scopes.empty()) open.scopes.push_back(std::make_unique<Scope>(&scopes.root, Braces{}));
  for (const LoopAxis& axis : outer.axes) open.index.push_back(Cuts::index(cuts.loops(axis)));
  scopes.current = &open.inner();
  return open;
}

void close_outer(LoopScopes& scopes, OpenOuter& open) {
  for (auto scope = open.scopes.rbegin(); scope != open.scopes.rend(); ++scope) (*scope)->finish();
  scopes.current = scopes.floor = &scopes.root;
}

namespace {
/// An iteration space: the dims of a value, those that reductions of the body run over, and the outputs stored in it.
struct IterationSpace {
  TensorType type;
  Dims dims;
  Dims start = {};  // of the segment that is iterated; empty: everything
  Dims extent = {};
  std::vector<int64_t> reduced;
  int64_t extent_of(int64_t d) const {
    return extent.empty() ? dims[static_cast<size_t>(d)] : extent[static_cast<size_t>(d)];
  }
  std::vector<size_t> outputs, row_outputs;  // row outputs: one element for each row
};
}  // namespace

/// The first reduction that an output needs at indices of its own row.
static std::optional<IterationSpace> reduction_space(const KernelContext& context) {
  for (OpId id : context.body.order()) {
    const Op& op = context.body.op(id);
    if (category(op) != Category::Reduction || !op.has("axes") || op.ints("axes").empty()) continue;
    return IterationSpace{context.body.type(op.inputs[0]), context.dims(op.inputs[0]), {}, {}, op.ints("axes"), {}, {}};
  }
  return {};
}

static bool is_row_shape(const KernelContext& context, const IterationSpace& space, ValueId value) {
  Dims kept, full;
  for (size_t d = 0; d < space.dims.size(); ++d) {
    const bool reduced =
        std::find(space.reduced.begin(), space.reduced.end(), static_cast<int64_t>(d)) != space.reduced.end();
    full.push_back(reduced ? 1 : space.dims[d]);
    if (!reduced) kept.push_back(space.dims[d]);
  }
  const Dims dims = context.dims(value);
  return !space.reduced.empty() && (dims == kept || dims == full);
}

static std::vector<IterationSpace> spaces_of(const KernelContext& context) {
  std::vector<IterationSpace> spaces;
  if (std::optional<IterationSpace> rows = reduction_space(context)) spaces.push_back(std::move(*rows));
  for (size_t o = 0; o < context.body.outputs().size(); ++o) {
    const ValueId value = context.computed_value(o);
    const Dims dims = context.dims(value);
    if (element_count(dims) == 0) continue;
    bool placed = false;
    for (IterationSpace& space : spaces) {
      const bool row = is_row_shape(context, space, value);
      placed = row || place_in(context, value, space.dims, IndexList(space.dims.size())).has_value();
      if (!placed) continue;
      (row ? space.row_outputs : space.outputs).push_back(o);
      break;
    }
    if (!placed) spaces.push_back({context.body.type(value), dims, {}, {}, {}, {o}, {}});
  }
  std::erase_if(spaces, [](const IterationSpace& s) { return s.outputs.empty() && s.row_outputs.empty(); });
  return spaces;
}

namespace {
/// Dimensions of a space as axes: neighbouring static ones are one axis.
struct AxisRun {
  LoopAxis axis;
  std::vector<int64_t> dims;
};
/// The dimensions of a space as its first output has them in memory, so that neighbouring iterations store neighbours.
std::vector<int64_t> loop_order(const KernelContext& context, const IterationSpace& space) {
  std::vector<int64_t> order(space.dims.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(d);
  if (space.outputs.empty()) return order;
  const Parameter& to = context.kernel.parameters[context.output_parameter(space.outputs[0])];
  if (to.storage.parts.size() != order.size() || context.dims(to.type) != space.dims) return order;
  for (size_t d = 0; d < order.size(); ++d) order[d] = to.storage.parts[d].dim;
  return order;
}
std::vector<AxisRun> axis_runs(KernelContext& context, const IterationSpace& space, bool reduced,
                               const std::string& prefix) {
  std::vector<AxisRun> runs;
  bool joins = false;
  for (int64_t d : loop_order(context, space)) {
    const bool is_reduced = std::find(space.reduced.begin(), space.reduced.end(), d) != space.reduced.end();
    if (is_reduced != reduced) continue;
    const Expr bound = run_bound(context, space.type, static_cast<size_t>(d));
    if (bound.empty() && joins) {
      runs.back().axis.extent *= space.extent_of(d);
      runs.back().dims.push_back(d);
      continue;
    }
    std::string unique = prefix + (runs.empty() ? "" : std::to_string(runs.size() + 1));
    if (context.names.has(unique)) unique += "_at";
    runs.push_back({{unique, space.extent_of(d), bound}, {d}});
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

/// Puts an element where it belongs in the operand: an all-gather puts the rank's digits back.
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

/// All operands of the stores are computed before the first one: an output may lie where an input lies.
static void store_all(Elements& elements, KernelContext& context, const std::vector<size_t>& outputs, const Dims* space,
                      const IndexList& index) {
  std::vector<std::pair<IndexList, Element>> values;
  for (size_t o : outputs) {
    const ValueId value = context.computed_value(o);
    IndexList at = space ? *place_in(context, value, *space, index) : index;
    if (!space && context.dims(value).size() < at.size()) at.resize(context.dims(value).size());
    Element element = elements.at(value, at);
    values.emplace_back(std::move(at), std::move(element));
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    store_output(elements, context, outputs[i], values[i].first, values[i].second);
}

/// Index of a row output: the kept dims alone, or with zeros for the reduced ones.
static IndexList row_index(const KernelContext& context, const IterationSpace& space, size_t output,
                           const IndexList& index) {
  const size_t ndim = context.dims(context.computed_value(output)).size();
  IndexList at;
  for (size_t d = 0; d < index.size(); ++d) {
    const bool reduced =
        std::find(space.reduced.begin(), space.reduced.end(), static_cast<int64_t>(d)) != space.reduced.end();
    if (!reduced || ndim == space.dims.size()) at.push_back(reduced ? IndexExpr(0) : index[d]);
  }
  return at;
}

/// Where a Concat or Pad with the shape of the space changes from one operand to the next, in dimension d.
static std::vector<int64_t> borders(KernelContext& context, const IterationSpace& space, size_t d) {
  std::vector<int64_t> found = {0, space.dims[d]};
  for (OpId id : context.body.order()) {
    const Op& op = context.body.op(id);
    if ((op.kind != OpKind::Concat && op.kind != OpKind::Pad) || context.dims(op.outputs[0]) != space.dims) continue;
    if (op.kind == OpKind::Pad) {
      const int64_t before =
          op.ints("pads")[d] / parts_of(context.body.type(op.inputs[0]), static_cast<int>(d), context.kernel.mesh);
      for (int64_t at : {before, before + context.dims(op.inputs[0])[d]}) found.push_back(at);
    }
    int64_t at = 0;
    for (ValueId input : op.inputs)
      if (op.kind == OpKind::Concat && op.integer("axis") == static_cast<int64_t>(d))
        found.push_back(at += context.dims(input)[d]);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  std::erase_if(found, [&](int64_t at) { return at < 0 || at > space.dims[d]; });
  return found;
}

/// The space in parts in which every Concat and Pad of its shape reads one operand only: no conditions in inner loops.
static std::vector<IterationSpace> segments(KernelContext& context, const IterationSpace& space) {
  constexpr size_t kMost = 12;
  std::vector<IterationSpace> parts = {space};
  parts[0].start.assign(space.dims.size(), 0);
  parts[0].extent = space.dims;
  for (size_t d = 0; d < space.dims.size(); ++d) {
    const bool reduced =
        std::find(space.reduced.begin(), space.reduced.end(), static_cast<int64_t>(d)) != space.reduced.end();
    const std::vector<int64_t> cuts = borders(context, space, d);
    if (reduced || cuts.size() < 3 || parts.size() * (cuts.size() - 1) > kMost) continue;
    if (!context.run_extent(space.type, static_cast<int>(d)).empty()) continue;
    std::vector<IterationSpace> finer;
    for (const IterationSpace& part : parts)
      for (size_t c = 0; c + 1 < cuts.size(); ++c) {
        finer.push_back(part);
        finer.back().start[d] = cuts[c], finer.back().extent[d] = cuts[c + 1] - cuts[c];
      }
    parts = std::move(finer);
  }
  return parts.size() == 1 ? std::vector<IterationSpace>{space} : parts;
}

/// The reductions of a row, in order, before anything reads them: each loop may then use what those before it have
/// kept.
static void write_reductions(Elements& elements, KernelContext& context, const IterationSpace& space,
                             const IndexList& index) {
  for (OpId id : context.body.order()) {
    const Op& op = context.body.op(id);
    if (category(op) != Category::Reduction || !op.has("axes") || op.ints("axes") != space.reduced) continue;
    if (context.dims(op.inputs[0]) != space.dims) continue;
    IndexList at;
    for (size_t d = 0; d < index.size(); ++d) {
      const bool reduced =
          std::find(space.reduced.begin(), space.reduced.end(), static_cast<int64_t>(d)) != space.reduced.end();
      if (!reduced || op.integer("keepdims")) at.push_back(reduced ? IndexExpr(0) : index[d]);
    }
    elements.at(op.outputs[0], at);
  }
}

/// How many neighbours of the innermost dimension a thread takes together, so that 16 bytes are moved at once: for
/// kernels that only move and compute elements, over spaces that are worth it.
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

/// The same for the elements of a row, where all of them lie side by side and every lane of a warp has some.
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

/// Short rows are a warp's, long ones a block's.
static Lanes lanes_for(const IterationSpace& space, int64_t row) {
  constexpr int64_t kWarpRow = 256;
  if (space.reduced.empty()) return Lanes::Thread;
  return row <= kWarpRow ? Lanes::Warp : Lanes::Block;
}

static void build_space(KernelContext& context, const IterationSpace& space, Elements& elements, Cuts& cuts) {
  const std::vector<AxisRun> rows = axis_runs(context, space, false, space.reduced.empty() ? "i" : "row");
  OuterLoops outer;
  for (const AxisRun& run : rows) outer.axes.push_back(run.axis);
  for (int64_t d : space.reduced) outer.work *= space.dims[d];
  if (context.facts().has_grid) elements.scopes.lanes = lanes_for(space, outer.work);
  if (elements.scopes.lanes == Lanes::Thread) outer.vector = vector_width(context, space);
  if (elements.scopes.lanes != Lanes::Host) elements.scopes.row_vector = row_vector_width(context, space, outer.work);
  if (outer.vector > 1) {
    cuts.add(outer.axes.back(), outer.vector);
    if (cuts.loops(outer.axes.back()).back().extent != outer.vector) outer.vector = 1;
  }
  OpenOuter open = open_outer(elements.scopes, outer, cuts, context);
  IndexList index(space.dims.size());
  for (size_t r = 0; r < rows.size(); ++r) fill(index, rows[r], open.index[r], space);
  write_reductions(elements, context, space, index);
  for (size_t o : space.row_outputs) store_all(elements, context, {o}, nullptr, row_index(context, space, o, index));
  if (!space.outputs.empty()) {
    std::vector<LoopScopes::Open> inner;
    for (const AxisRun& run : axis_runs(context, space, true, "c")) {
      Scope* under = inner.empty() ? &open.inner() : &inner.back().inner();
      inner.push_back(elements.scopes.open(under, run.axis, {.kind = LoopKind::Vector}, true));
      fill(index, run, inner.back().index, space);
    }
    store_all(elements, context, space.outputs, &space.dims, index);
    for (auto loop = inner.rbegin(); loop != inner.rend(); ++loop) elements.scopes.close(*loop);
  }
  if (For* loop = open.inner().loop(); loop && elements.scopes.lanes == Lanes::Host) loop->kind = LoopKind::Vector;
  close_outer(elements.scopes, open);
}

/// Adds the statements of one part. Those outside its loops get a block of their own: each part names its values
/// afresh.
static void append_part(Statements& statements, Statements part) {
  if (has_declaration(part))
    statements.push_back(Braces{std::move(part)});
  else
    append(statements, std::move(part));
}

static void build_array(KernelContext& context, ValueId value, const std::string& array, const IterationSpace& space,
                        const Storage& storage, Elements& elements, const Cuts& cuts) {
  const std::vector<AxisRun> runs = axis_runs(context, space, false, "i");
  OuterLoops outer;
  for (const AxisRun& run : runs) outer.axes.push_back(run.axis);
  OpenOuter open = open_outer(elements.scopes, outer, cuts, context);
  IndexList index(space.dims.size());
  for (size_t r = 0; r < runs.size(); ++r) fill(index, runs[r], open.index[r], space);
  const Element element = elements.at(value, index);
  const Expr at = storage.offset(space.dims, index);
  open.inner().put(Store{weftc::element(array, at), element.expr});
  if (For* loop = open.inner().loop(); loop && elements.scopes.lanes == Lanes::Host) loop->kind = LoopKind::Vector;
  close_outer(elements.scopes, open);
}

Statements write_array(KernelContext& context, ValueId value, const std::string& array, const Storage& storage) {
  const IterationSpace whole{context.body.type(value), context.dims(value), {}, {}, {}, {}, {}};
  const std::string type = compute_type(whole.type.dtype);
  Statements statements = {"const std::unique_ptr<" + type + "[]> " + array + "(new " + type + "[" +
                           std::to_string(std::max<int64_t>(1, element_count(whole.dims))) + "]);"};
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
