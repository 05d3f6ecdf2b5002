// Layout rules of single ops, axis by axis. They state L1-L10 as conditions, while the layout pass decides layouts. The
// two share no code.
#include <algorithm>

#include "ir/base/contains.h"
#include "ir/exchange_types.h"
#include "ir/local_op.h"
#include "ir/op_def.h"
#include "ir/verify_rules.h"

namespace weftc {

namespace {

using Kind = AxisState::Kind;

/// One op and one axis of its mesh: each axis is checked by itself, since an axis serves one loop (L4).
struct AxisRule {
  const Module& module;
  const Graph& graph;
  const Op& op;
  const Mesh& mesh;
  int axis;
  const FactorRule* factors;  // null for views
  Findings& findings;

  AxisState operand(size_t i) const { return graph.type(op.inputs[i]).layout[axis]; }
  AxisState result(size_t r) const { return graph.type(op.outputs[r]).layout[axis]; }
  bool has(size_t i) const { return bool(op.inputs[i]); }
  bool any(Kind kind) const {
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (has(i) && operand(i).is(kind)) return true;
    return false;
  }
  template <class... Arguments>
  void wrong(std::string_view pattern, const Arguments&... arguments) const {
    findings.add(op, "axis '{}': {}", mesh[axis].name, format(pattern, arguments...));
  }
  void results_are(AxisState state) const {
    for (size_t r = 0; r < op.outputs.size(); ++r)
      if (!(result(r) == state))
        wrong("result {} is {}, its operands give {}", r, state_text(result(r)), state_text(state));
  }

  void check() const;
  void check_varying() const;
  void check_partial() const;
  void check_factor() const;
  void check_operands(int factor, int64_t block) const;
  bool is_whole_times(const Extent& extent, const Factor& loop, int64_t block) const;
  void check_view() const;
};

void AxisRule::check() const {
  if (any(Kind::V)) return check_varying();
  if (any(Kind::P)) return check_partial();
  if (op_def(op).category == Category::View) return check_view();
  check_factor();
}

/// L10: V joins R, and all results vary.
void AxisRule::check_varying() const {
  if (any(Kind::S) || any(Kind::P)) wrong("a varying operand meets a sliced or partial one");
  results_are(AxisState::varying());
}

// L6: exactly one linear group is P(sum), the rest R.
void AxisRule::check_partial() const {
  const std::vector<std::vector<int>> groups = linear_groups(OpView(module, graph, op));
  const bool passes = std::any_of(groups.begin(), groups.end(), [&](const std::vector<int>& group) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (!has(i)) continue;
      const bool member = contains(group, static_cast<int>(i));
      if (!(operand(i) == (member ? AxisState::partial(ReduceOp::Sum) : AxisState{}))) return false;
    }
    return true;
  });
  if (!passes) return wrong("partial operands are no linear group of sums");
  results_are(AxisState::partial(ReduceOp::Sum));
}

/// The dim of an operand or result that runs over the factor, or -1.
int dim_of(const std::vector<int>& dims, int factor) {
  const auto at = std::find(dims.begin(), dims.end(), factor);
  return at == dims.end() ? -1 : static_cast<int>(at - dims.begin());
}

// L4: one axis serves one loop, and all operands that have the loop are sliced alike.
void AxisRule::check_factor() const {
  int factor = -1;
  int64_t block = 0;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!has(i) || !operand(i).is(Kind::S)) continue;
    const int mine = i < factors->inputs.size() ? factors->inputs[i][operand(i).dim] : -1;
    if (mine < 0 || factors->factors[mine].role == Factor::Role::Whole)
      return wrong("operand {} is sliced along a dimension that must be whole", i);
    if (factor >= 0 && factor != mine) return wrong("the operands are sliced along different loops");
    factor = mine;
    block = operand(i).block;
  }
  // A source may have any layout.
  if (factor < 0) return op.inputs.empty() ? void() : results_are({});
  check_operands(factor, block);
  const Factor& loop = factors->factors[factor];
  if (loop.role == Factor::Role::Reduce) return results_are(AxisState::partial(loop.reduce));
  for (size_t r = 0; r < op.outputs.size(); ++r) {
    const int dim = r < factors->outputs.size() ? dim_of(factors->outputs[r], factor) : -1;
    const AxisState expected = dim < 0 ? AxisState{} : AxisState::sliced(dim, block);
    if (!(result(r) == expected)) wrong("result {} is {}, expected {}", r, state_text(result(r)), state_text(expected));
  }
}

/// True if the ranks' blocks divide each group of a dimension that runs over the loop once for each group.
bool AxisRule::is_whole_times(const Extent& extent, const Factor& loop, int64_t block) const {
  if (extent.is_run_time() || extent.bound == loop.extent) return true;
  return loop.extent % (block * mesh[static_cast<size_t>(axis)].size) == 0;
}

/// Every operand that has the loop is sliced with the same block; the others are replicated.
void AxisRule::check_operands(int factor, int64_t block) const {
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!has(i) || i >= factors->inputs.size()) continue;
    const int dim = dim_of(factors->inputs[i], factor);
    const AxisState expected = dim < 0 ? AxisState{} : AxisState::sliced(dim, block);
    if (!(operand(i) == expected))
      wrong("operand {} is {}, another operand demands {}", i, state_text(operand(i)), state_text(expected));
    else if (dim >= 0 && !is_whole_times(graph.type(op.inputs[i]).shape[dim], factors->factors[factor], block))
      wrong("operand {} is {}, which does not slice each group alike", i, state_text(operand(i)));
  }
}

/// Elements per step of a dimension's index, in row-major order.
Length product_right_of(const Shape& shape, int dim) {
  Length product = 1;
  for (size_t d = static_cast<size_t>(dim) + 1; d < shape.size(); ++d) product = product * length_of(shape[d]);
  return product;
}

/// One axis over a view: the slice before and after the view, and the dims of both.
struct ViewSlice {
  const Op& op;
  const Shape &from, &to;
  AxisState before, after;
  int size;
  Length right_before, right_after;  // elements per step of an index of the sliced dims

  bool ragged() const {
    const Extent& extent = from[static_cast<size_t>(before.dim)];
    return extent.is_run_time() || extent.bound % (before.block * size) != 0;
  }
  bool same_slice() const { return after == before; }
  /// A position at which slicing starts anew.
  bool is_boundary(int64_t position) const { return !ragged() && position % (before.block * size) == 0; }
};

// Coordinates of linear index L are (L div step) mod size with step = block * product to the right.
bool keeps_reshape(const ViewSlice& s) {
  if (s.ragged())
    return length_of(s.from[s.before.dim]) * s.right_before == length_of(s.to[s.after.dim]) * s.right_after &&
           s.right_before * s.before.block == s.right_after * s.after.block;
  return s.right_before * s.before.block == s.right_after * s.after.block &&
         s.to[s.after.dim].bound % (s.after.block * s.size) == 0 && !s.to[s.after.dim].is_run_time();
}

/// L5: cuts must fall on boundaries, and a step must divide the block.
bool keeps_slice(const ViewSlice& s) {
  if (s.after.dim != s.before.dim) return false;
  const auto d = static_cast<size_t>(s.before.dim);
  const int64_t start = s.op.ints("starts")[d], step = s.op.ints("steps")[d];
  if (start == 0 && step == 1 && s.to[d] == s.from[d]) return s.same_slice();
  const int64_t end = std::min(s.op.ints("ends")[d], s.from[d].bound);
  return step > 0 && s.before.block % step == 0 && s.is_boundary(start) && s.is_boundary(end) &&
         s.after.block == s.before.block / step;
}

/// L5: a border must be whole slices, so that no element changes its rank.
bool keeps_pad(const ViewSlice& s) {
  const std::vector<int64_t>& pads = s.op.ints("pads");
  const auto d = static_cast<size_t>(s.before.dim);
  const int64_t front = pads[d], back = pads[d + s.from.size()];
  if (!s.same_slice()) return false;
  return (front == 0 && back == 0) || (s.op.text("mode") == "constant" && s.is_boundary(front) && s.is_boundary(back));
}

/// True if the view turns slice `before` into slice `after`; reports nothing.
bool keeps(const ViewSlice& s) {
  const int grown = static_cast<int>(s.to.size()) - static_cast<int>(s.from.size());
  switch (s.op.kind) {
    case OpKind::Reshape:
      return keeps_reshape(s);
    case OpKind::Transpose:
      return s.after.block == s.before.block && s.op.ints("perm")[s.after.dim] == s.before.dim;
    case OpKind::Expand:
      // A broadcast extent of 1 may be sliced too: one rank has it, the others have nothing to copy.
      return s.after == AxisState::sliced(s.before.dim + grown, s.before.block) &&
             s.from[s.before.dim] == s.to[s.after.dim];
    case OpKind::Tile:
      return s.same_slice() && (!s.ragged() || s.to[s.after.dim] == s.from[s.before.dim]);
    case OpKind::Slice:
      return keeps_slice(s);
    case OpKind::Pad:
      return keeps_pad(s);
    case OpKind::Concat:
      return s.same_slice() && (s.before.dim != s.op.integer("axis") || s.is_boundary(s.from[s.before.dim].bound));
    default:
      return false;
  }
}

/// Each sliced operand of a view gives the result's slice; otherwise both are replicated.
void AxisRule::check_view() const {
  const TensorType& to = graph.type(op.outputs[0]);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!has(i)) continue;
    const TensorType& from = graph.type(op.inputs[i]);
    const AxisState before = operand(i), after = result(0);
    if (before.is(Kind::R) && after.is(Kind::R)) continue;
    if (!before.is(Kind::S) || !after.is(Kind::S))
      return wrong("operand {} is {}, the result {}", i, state_text(before), state_text(after));
    const Length right_before = product_right_of(from.shape, before.dim),
                 right_after = product_right_of(to.shape, after.dim);
    if (!keeps({op, from.shape, to.shape, before, after, mesh[axis].size, right_before, right_after}))
      return wrong("{} does not become {} by this op", state_text(before), state_text(after));
  }
}

/// True if a collective may take one axis from one state to another.
bool is_step(OpKind kind, const AxisState& from, const AxisState& to, std::optional<ReduceOp> reduce) {
  switch (kind) {
    case OpKind::ShardSlice:
      return from.is(Kind::R) && to.is(Kind::S);
    case OpKind::AllGather:
      return from.is(Kind::S) && to.is(Kind::R);
    case OpKind::AllToAll:
      return from.is(Kind::S) && to.is(Kind::S) && !(from == to);
    case OpKind::AllReduce:
      return to.is(Kind::R) && (from.is(Kind::V) || (from.is(Kind::P) && from.op == reduce));
    case OpKind::ReduceScatter:
      return to.is(Kind::S) && (from.is(Kind::V) || (from.is(Kind::P) && from.op == reduce));
    case OpKind::Broadcast:
      return from.is(Kind::V) && to.is(Kind::R);
    case OpKind::Reduce:
      return from.is(Kind::V) && to.is(Kind::V);
    default:
      return false;
  }
}

// L10: a model's collective takes copies, equal or not, and has the number of ranks that it joins.
void check_model_collective(const Graph& graph, const Op& op, const Mesh& mesh, Findings& findings) {
  const Layout &from = graph.type(op.inputs[0]).layout, &to = graph.type(op.outputs[0]).layout;
  const bool makes_copies = op.kind == OpKind::AllGather || op.kind == OpKind::Broadcast;
  for (const int64_t axis : op.ints("axes")) {
    const AxisState before = from[static_cast<int>(axis)], after = to[static_cast<int>(axis)];
    if (before.is(Kind::S) || before.is(Kind::P) || !(after == (makes_copies ? AxisState{} : AxisState::varying())))
      findings.add(op, "the ranks' tensors cannot go from {} to {}", state_text(before), state_text(after));
  }
  if (op.integer_or("group_size", group_size(op, mesh)) != group_size(op, mesh))
    findings.add(op, "joins {} ranks, its axes have {}", op.integer("group_size"), group_size(op, mesh));
  if (op.has("root") && op.integer("root") >= group_size(op, mesh))
    findings.add(op, "the group has no rank {}", op.integer("root"));
}

/// The axes that the op lists change their state as its kind requires (L7); all others keep theirs.
void check_collective(const Module& module, const Graph& graph, const Op& op, const Mesh& mesh, Findings& findings) {
  if (!op.has("axes")) return findings.add(op, "lacks attribute 'axes'");
  const std::vector<int64_t>& axes = op.ints("axes");
  const std::optional<ReduceOp> reduce = op.has("reduce") ? parse_reduce(op.text("reduce")) : std::nullopt;
  const size_t place_axes = mesh.size() - graph.time_axes.size();
  for (int64_t axis : axes)
    if (axis < 0 || axis >= static_cast<int64_t>(place_axes))
      return findings.add(op, "axis {} is not the place's", axis);
  if (joins_tensors(op) || has_root(op.kind)) check_model_collective(graph, op, mesh, findings);
  // Equal copies may be treated as unrelated ones only if a model says so.
  const ExchangeTypes types = exchange_types(op, graph.type(op.inputs[0]), graph.type(op.outputs[0]), mesh);
  const TensorType &from = module.per_rank ? types.from : graph.type(op.inputs[0]), &to = types.to;
  for (size_t a = 0; a < mesh.size(); ++a) {
    const AxisState before = from.layout[static_cast<int>(a)], after = to.layout[static_cast<int>(a)];
    const bool listed = contains(axes, static_cast<int64_t>(a));
    if (!listed && !(before == after))
      findings.add(op, "axis '{}' goes from {} to {} but is not listed", mesh[a].name, state_text(before),
                   state_text(after));
    // If the value stays partial on another axis, the reduction must be the same one.
    const bool reduces = op.kind == OpKind::AllReduce || op.kind == OpKind::ReduceScatter;
    if (!listed && reduces && before.is(Kind::P) && before.op != reduce)
      findings.add(op, "axis '{}' stays {} in another reduction", mesh[a].name, state_text(before));
    if (listed && mesh[a].size > 1 && !is_step(op.kind, before, after, reduce))
      findings.add(op, "axis '{}' cannot go from {} to {}", mesh[a].name, state_text(before), state_text(after));
  }
}

void check_transfer(const Graph& graph, const Op& op, Findings& findings) {
  for (ValueId v : {op.inputs[0], op.outputs[0]}) {
    const Layout& layout = graph.type(v).layout;
    if (layout.has(Kind::P) || layout.has(Kind::V)) findings.add(op, "a partial or varying value is sent");
  }
}

/// Checks that sources are not partial; only parameters and a per-rank model's inputs vary.
void check_source(const Graph& graph, const Op& op, const Mesh& mesh, Findings& findings) {
  for (ValueId v : op.outputs) {
    const Layout& layout = graph.type(v).layout;
    const bool may_vary = op.kind == OpKind::Input;  // region parameters and inputs of per-rank models
    if (!may_vary && (layout.has(Kind::P) || layout.has(Kind::V)))
      findings.add(op, "a source is {}", layout_text(layout, mesh));
  }
}

}  // namespace

void verify_layout(const Module& module, const Graph& graph, const Op& op, Findings& findings) {
  const Mesh mesh = module.mesh(graph, op.place);
  for (ValueId v : op.outputs) {
    const std::string illegal = check_layout(graph.type(v), mesh);
    if (!illegal.empty()) return findings.add(op, "'{}': {}", graph.value(v).name, illegal);
  }
  if (op.kind == OpKind::Transfer) return check_transfer(graph, op, findings);
  for (ValueId v : op.inputs)
    if (v && !(place_of(graph, v) == op.place))
      return findings.add(op, "operand '{}' is in another place", graph.value(v).name);
  if (category(op) == Category::Collective) return check_collective(module, graph, op, mesh, findings);
  if (category(op) == Category::Source) return check_source(graph, op, mesh, findings);
  const bool view = category(op) == Category::View;
  FactorRule factors;
  bool ruled = false;
  for (size_t a = 0; a < mesh.size(); ++a) {
    if (mesh[a].size == 1) continue;
    if (!ruled && !view) factors = factor_rule(OpView(module, graph, op)), ruled = true;
    AxisRule{module, graph, op, mesh, static_cast<int>(a), view ? nullptr : &factors, findings}.check();
  }
}

/// Equal copies are a case of copies that may differ.
static bool fits(const AxisState& given, const AxisState& expected) {
  return given == expected || (given.is(Kind::R) && expected.is(Kind::V));
}

namespace {

/// Compares the layout of a value outside with the layout of its counterpart inside.
struct RegionRule {
  const Module& module;
  const Graph& graph;
  const Graph& region;
  const Op& op;
  Findings& findings;

  void check_parameter(ValueId operand, ValueId parameter) const;
  void check_result(ValueId result, ValueId output, int shift) const;
  void check_time(const AxisState& inside, bool result, const std::string& name) const;
};

void RegionRule::check_time(const AxisState& inside, bool result, const std::string& name) const {
  const bool legal = result ? inside.is(Kind::S) || inside.is(Kind::P) : inside.is(Kind::R) || inside.is(Kind::S);
  if (!legal) findings.add(op, "'{}' is {} over the chunks", name, state_text(inside));
}

void RegionRule::check_parameter(ValueId operand, ValueId parameter) const {
  const Layout &given = graph.type(operand).layout, &expected = region.type(parameter).layout;
  const PlaceId place = place_of(graph, operand);
  if (!(region.producer_op(parameter).place == place))
    return findings.add(op, "operand '{}' enters the region in another place", graph.value(operand).name);
  const int axes = static_cast<int>(module.mesh(graph, place).size());
  for (int a = 0; a < axes; ++a)
    if (!fits(given[a], expected[a]))
      findings.add(op, "operand '{}' is {}, inside {} (axis {})", graph.value(operand).name, state_text(given[a]),
                   state_text(expected[a]), a);
  if (op.kind == OpKind::Chunk) check_time(expected[axes], false, graph.value(operand).name);
}

void RegionRule::check_result(ValueId result, ValueId output, int shift) const {
  const Layout &made = region.type(output).layout, &expected = graph.type(result).layout;
  const PlaceId place = place_of(region, output);
  if (op.place && !(op.place == place))
    return findings.add(op, "result '{}' is made in another place", graph.value(result).name);
  const int axes = static_cast<int>(module.mesh(graph, place).size());
  const std::string illegal = check_layout(graph.type(result), module.mesh(graph, place));
  if (!illegal.empty()) findings.add(op, "'{}': {}", graph.value(result).name, illegal);
  for (int a = 0; a < axes; ++a) {
    AxisState state = made[a];
    if (state.is(Kind::S)) state.dim += shift;
    if (!fits(state, expected[a]))
      findings.add(op, "result '{}' is {}, inside {} (axis {})", graph.value(result).name, state_text(expected[a]),
                   state_text(state), a);
  }
  if (op.kind == OpKind::Chunk) check_time(made[axes], true, graph.value(result).name);
}

// P6: all ranks take the same branch.
void check_predicate(const Graph& graph, const Op& op, size_t input, Findings& findings) {
  if (op.inputs[input] && !graph.type(op.inputs[input]).layout.is_replicated())
    findings.add(op, "operand {} decides the way and is not the same on all ranks", input);
}

}  // namespace

void verify_region_layout(const Module& module, const Graph& graph, const Op& op, Findings& findings) {
  const bool loop = op.kind == OpKind::Loop, branch = op.kind == OpKind::If;
  if (loop || branch) check_predicate(graph, op, 0, findings);
  if (loop) check_predicate(graph, op, 1, findings);
  const auto carried = static_cast<size_t>(op.integer_or("carried", 0));
  for (const Graph& region : op.regions) {
    const RegionRule rule{module, graph, region, op, findings};
    if (region.inputs().size() + (branch ? 1 : 0) != op.inputs.size()) return;
    if (region.outputs().size() != op.outputs.size() + (loop ? 1 : 0)) return;
    if (loop && !region.type(region.outputs()[0].value).layout.is_replicated())
      findings.add(op, "the condition is not the same on all ranks");
    for (size_t i = loop ? 2 : branch ? 1 : 0; i < op.inputs.size(); ++i)
      rule.check_parameter(op.inputs[i], region.inputs()[i - (branch ? 1 : 0)]);
    for (size_t r = 0; r < op.outputs.size(); ++r)
      rule.check_result(op.outputs[r], region.outputs()[r + (loop ? 1 : 0)].value, loop && r >= carried ? 1 : 0);
    // A carried value that leaves one trip enters the next, so both need the same layout.
    for (size_t i = 0; i < carried && loop; ++i) {
      const Layout &leaves = region.type(region.outputs()[1 + i].value).layout,
                   &enters = region.type(region.inputs()[2 + i]).layout;
      for (int a = 0; a < std::max(leaves.size(), enters.size()); ++a)
        if (!fits(leaves[a], enters[a])) findings.add(op, "carried value {} changes its layout", i);
    }
  }
}

}  // namespace weftc
