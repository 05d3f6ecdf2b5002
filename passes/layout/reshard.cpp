// Finds the collectives between two layouts, axis by axis, and joins neighbours that one call can do:
//
//   [tp: P(sum), dp: S(0)] to [tp: R, dp: R]   ->   AllReduce over tp, AllGather over dp
//   [a: S(0,4), b: S(0,2)] to R                ->   one AllGather over the product of a and b
#include "passes/layout/reshard.h"

#include <algorithm>

#include "ir/base/check.h"
#include "ir/op_def.h"

namespace weftc {

namespace {

using Kind = AxisState::Kind;

/// The collective between two states of one axis (L7).
OpKind kind_of(const AxisState& from, const AxisState& to) {
  if (from.is(Kind::R)) return OpKind::ShardSlice;
  if (from.is(Kind::S)) return to.is(Kind::R) ? OpKind::AllGather : OpKind::AllToAll;
  return to.is(Kind::R) ? OpKind::AllReduce : OpKind::ReduceScatter;
}

/// Slices first and gathers last, so that as little as possible is sent in between.
int priority(OpKind kind) {
  switch (kind) {
    case OpKind::ShardSlice:
      return 0;
    case OpKind::ReduceScatter:
      return 1;
    case OpKind::AllReduce:
      return 2;
    case OpKind::AllToAll:
      return 3;
    default:
      return 4;
  }
}

/// True if every pair of ranks exchanges a box of one size: both slices of the dim are digits of its index, as
/// if they nested.
bool exchanges_boxes(const TensorType& at, const AxisState& to, int axis, const Mesh& mesh) {
  const AxisState& from = at.layout[axis];
  if (from.dim != to.dim) return true;
  std::vector<Digit> digits = digits_of(at.layout, from.dim, mesh);
  const auto finer = std::find_if(digits.begin(), digits.end(), [&](const Digit& d) { return d.block < to.block; });
  digits.insert(finer, {axis, mesh[axis].size, to.block});
  return check_slices(at.shape[from.dim], digits).empty();
}

/// Depth-first over the orders of the axes still to change, by priority: the first legal one.
bool find_order(const TensorType& at, const Layout& to, const Mesh& mesh, std::vector<int> left,
                std::vector<ReshardStep>& steps) {
  if (left.empty()) return true;
  std::stable_sort(left.begin(), left.end(), [&](int x, int y) {
    return priority(kind_of(at.layout[x], to[x])) < priority(kind_of(at.layout[y], to[y]));
  });
  for (size_t i = 0; i < left.size(); ++i) {
    const int axis = left[i];
    TensorType next = at;
    next.layout.set(axis, to[axis]);
    if (!check_layout(next, mesh).empty()) continue;
    const OpKind kind = kind_of(at.layout[axis], to[axis]);
    if (kind == OpKind::AllToAll && !exchanges_boxes(at, to[axis], axis, mesh)) continue;
    steps.push_back({kind, {axis}, next.layout});
    std::vector<int> rest = left;
    rest.erase(rest.begin() + static_cast<long>(i));
    if (find_order(next, to, mesh, rest, steps)) return true;
    steps.pop_back();
  }
  return false;
}

/// Two slices of one dim that are one slice over the product of their axes, outer first.
bool is_product(const AxisState& outer, const AxisState& inner, int inner_size) {
  return outer.is(Kind::S) && inner.is(Kind::S) && outer.dim == inner.dim && outer.block == inner.block * inner_size;
}

/// One clip of an exchange follows one axis: slices of ragged dims are taken one after the other.
bool is_ragged_slice(const TensorType& type, int axis, const Mesh& mesh) {
  const int dim = type.layout[axis].dim;
  return is_ragged(type.shape[dim], digits_of(type.layout, dim, mesh));
}

/// True if step b can join step a in one collective; the axes of the joined step, or nothing.
std::vector<int> joined_axes(const TensorType& from, const Layout& before, const ReshardStep& a, const ReshardStep& b,
                             const Mesh& mesh) {
  if (a.kind != b.kind) return {};
  const int x = a.axes.back(), y = b.axes[0], first = a.axes[0];
  const auto product = [&](const Layout& layout, int outer, int inner) {
    return is_product(layout[outer], layout[inner], mesh[inner].size);
  };
  const auto appended = [&](bool after) {
    std::vector<int> axes = a.axes;
    axes.insert(after ? axes.end() : axes.begin(), y);
    return axes;
  };
  switch (a.kind) {
    case OpKind::ShardSlice: {
      const TensorType sliced{from.dtype, from.shape, b.layout};
      const bool ragged = is_ragged_slice(sliced, first, mesh) || is_ragged_slice(sliced, y, mesh);
      return ragged ? std::vector<int>{} : appended(true);
    }
    case OpKind::AllReduce:
      return before[first].op == before[y].op ? appended(true) : std::vector<int>{};
    case OpKind::AllGather:
      if (product(before, x, y)) return appended(true);
      return product(before, y, first) ? appended(false) : std::vector<int>{};
    case OpKind::ReduceScatter:
      if (before[first].op != before[y].op) return {};
      if (product(b.layout, x, y)) return appended(true);
      return product(b.layout, y, first) ? appended(false) : std::vector<int>{};
    case OpKind::AllToAll:
      return product(before, x, y) && product(b.layout, x, y) ? appended(true) : std::vector<int>{};
    default:
      return {};
  }
}

/// Joins each step with the one before it where that is one collective.
std::vector<ReshardStep> join_steps(const TensorType& from, const std::vector<ReshardStep>& steps, const Mesh& mesh) {
  std::vector<ReshardStep> joined;
  Layout before = from.layout;  // the layout that joined.back() starts from
  for (const ReshardStep& step : steps) {
    std::vector<int> axes;
    if (!joined.empty()) axes = joined_axes(from, before, joined.back(), step, mesh);
    if (!axes.empty()) {
      joined.back() = {step.kind, axes, step.layout};
      continue;
    }
    if (!joined.empty()) before = joined.back().layout;
    joined.push_back(step);
  }
  return joined;
}

/// The suffix of a reshard's name, after its producer's name; schedules select it by this.
const char* suffix_of(OpKind kind) {
  switch (kind) {
    case OpKind::AllReduce:
      return "sum";
    case OpKind::ReduceScatter:
      return "scatter";
    case OpKind::AllGather:
      return "gather";
    case OpKind::AllToAll:
      return "exchange";
    default:
      return "slice";
  }
}

}  // namespace

std::vector<ReshardStep> reshard_steps(const TensorType& from, const Layout& to, const Mesh& mesh) {
  std::vector<int> left;
  for (int a = 0; a < static_cast<int>(mesh.size()); ++a)
    if (!(from.layout[a] == to[a])) left.push_back(a);
  std::vector<ReshardStep> steps;
  if (find_order(from, to, mesh, left, steps)) return join_steps(from, steps, mesh);
  // No order is legal: bring the sliced axes to R first, one after the other, until the rest can be ordered.
  TensorType at = from;
  for (int axis : left) {
    if (!at.layout[axis].is(Kind::S)) continue;
    TensorType gathered = at;
    gathered.layout.set(axis, {});
    if (!check_layout(gathered, mesh).empty()) continue;
    std::vector<ReshardStep> rest = reshard_steps(gathered, to, mesh);
    rest.insert(rest.begin(), {OpKind::AllGather, {axis}, gathered.layout});
    return rest;
  }
  WEFT_CHECK(false, "no reshard from " + layout_text(from.layout, mesh) + " to " + layout_text(to, mesh));
}

std::string node_name(const Module& module, const Op& op) {
  return op.origins.empty() ? op.name : module.origins[op.origins.front().index].name;
}

/// NODE.sum and so on; a second one of a kind at a node adds its axes.
std::string Resharder::name_of(ValueId value, const ReshardStep& step, bool is_late) {
  const Op& producer = graph_.producer_op(value);
  const bool source = category(producer) == Category::Source;
  std::string name = source || producer.origins.empty() ? graph_.value(value).name : node_name(module_, producer);
  name += std::string(".") + suffix_of(step.kind);
  if (is_late) name += kAgain;
  if (graph_.find_op(name))
    for (int axis : step.axes) name += "." + module_.mesh(graph_, producer.place)[axis].name;
  return name;
}

/// Adds one collective before an op; if that is invalid, after the value's producer and earlier reshards of it.
ValueId Resharder::insert(ValueId value, const ReshardStep& step, OpId before, bool is_late) {
  const Op& producer = graph_.producer_op(value);
  TensorType type = graph_.type(value);
  NewOp made{step.kind, {value}, {}, {}, {}, producer.place, name_of(value, step, is_late), producer.origins, {}, {}};
  made.attrs.push_back({"axes", std::vector<int64_t>(step.axes.begin(), step.axes.end())});
  if (step.kind == OpKind::AllReduce || step.kind == OpKind::ReduceScatter)
    made.attrs.push_back({"reduce", std::string(reduce_name(type.layout[step.axes[0]].op))});
  type.layout = step.layout;
  made.results.push_back(std::move(type));
  if (before) return graph_.result(graph_.add(std::move(made), before));
  const auto after = last_after_.find(value);
  const OpId previous = after == last_after_.end() ? graph_.producer(value) : after->second;
  const OpId id = graph_.add(std::move(made), graph_.next(previous));
  last_after_[value] = id;
  return graph_.result(id);
}

/// A view of a derivative that must be whole on some axes: makes its operand whole and views that. Several products
/// read one derivative through views, so it is gathered once.
std::optional<ValueId> Resharder::gathered_view(ValueId value, const Layout& to, OpId reader) {
  const Op& view = graph_.producer_op(value);
  if (!module_.is_backward(view) || (view.kind != OpKind::Reshape && view.kind != OpKind::Transpose)) return {};
  const Layout now = graph_.type(value).layout;
  Layout of_operand = graph_.type(view.inputs[0]).layout;
  for (int axis = 0; axis < std::max(now.size(), to.size()); ++axis) {
    if (now[axis] == to[axis]) continue;
    if (!to[axis].is(AxisState::Kind::R) || !of_operand[axis].is(AxisState::Kind::S)) return {};
    of_operand.set(axis, {});
  }
  const ValueId whole = reshard(view.inputs[0], of_operand, reader);
  NewOp made = copy_of(graph_.producer_op(value));
  made.name = graph_.producer_op(value).name + ".whole";
  made.inputs = {whole};
  made.results = {graph_.type(value)};
  made.results[0].layout = to;
  return graph_.result(graph_.add(std::move(made), reader));
}

ValueId Resharder::reshard(ValueId value, const Layout& to, OpId reader) {
  const TensorType type = graph_.type(value);
  if (type.layout == to) return value;
  if (reader)
    if (const std::optional<ValueId> view = gathered_view(value, to, reader)) return *view;
  const bool is_late = reader && module_.is_late(graph_.op(reader)) && !module_.is_late(graph_.producer_op(value));
  const bool is_there_early = category(graph_.producer_op(value)) == Category::Source;
  const OpId before = is_late || is_there_early ? reader : OpId{};
  const Mesh mesh = module_.mesh(graph_, graph_.producer_op(value).place);
  ValueId at = value;
  for (const ReshardStep& step : reshard_steps(type, to, mesh)) {
    const auto key = std::make_tuple(at, layout_text(step.layout, mesh), is_late);
    const auto found = made_.find(key);
    at = found != made_.end() ? found->second : (made_[key] = insert(at, step, before, is_late));
  }
  return at;
}

}  // namespace weftc
