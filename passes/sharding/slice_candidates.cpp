#include "passes/sharding/slice_candidates.h"

#include <set>

#include "ir/base/contains.h"
#include "ir/op_def.h"
#include "passes/layout/layout_rules.h"

namespace weftc {

namespace {

using Kind = AxisState::Kind;

// At most this many slices of one value on one axis are kept: long chains of views give blocks of ever smaller parts.
constexpr size_t kMostSlices = 12;

/// Blocks that slices of an extent over an axis have where it is alone on the dim, or inside of one other axis.
std::vector<int64_t> blocks_of(int64_t extent, const Mesh& mesh, int axis) {
  const int size = mesh[static_cast<size_t>(axis)].size;
  std::vector<int64_t> blocks;
  if (extent < size) return blocks;
  blocks.push_back((extent + size - 1) / size);
  if (extent % size != 0) return blocks;
  for (int other = 0; other < axis; ++other) {
    const int outer = mesh[static_cast<size_t>(other)].size;
    if (outer > 1 && extent % (int64_t{size} * outer) == 0) blocks.push_back(extent / size / outer);
  }
  return blocks;
}

}  // namespace

bool is_settled(const Op& op) {
  const Category kind = category(op);
  return kind != Category::Source && kind != Category::Collective && kind != Category::Region;
}

SliceCandidates::SliceCandidates(const Module& module, const Graph& graph, const LayerClasses& classes,
                                 const KeptLayouts& kept)
    : module_(module), graph_(graph), classes_(classes) {
  found_.resize(graph.value_capacity());
  for (const LayerClasses::Class& one : classes.all())
    for (const ValueId v : graph.op(one.ops.front()).outputs) {
      found_[v.index].resize(mesh(one.ops.front()).size());
      if (const std::optional<Layout> layout = kept.of(v)) add_kept(v, *layout);
    }
  for (const LayerClasses::Class& one : classes.all()) {
    const Op& op = graph.op(one.ops.front());
    if (is_settled(op) && category(op) != Category::View) add_loops(one.ops.front());
  }
  while (!left_.empty()) {
    const Slice slice = left_.back();
    left_.pop_back();
    carry_forwards(slice);
    carry_backwards(slice);
  }
}

ValueId SliceCandidates::first_of_class(ValueId value) const {
  return graph_.op(members(graph_.producer(value)).front()).outputs[graph_.value(value).result];
}

const std::vector<AxisState>& SliceCandidates::of(ValueId value, int axis) const {
  return found_[first_of_class(value).index][static_cast<size_t>(axis)];
}

/// The same slice for all values that members of a class read as operand `input`: in the first layer they may be of
/// another class than in the others.
void SliceCandidates::add_operands(OpId id, size_t input, int axis, const AxisState& state) {
  for (const OpId member : members(id))
    if (const ValueId v = graph_.op(member).inputs[input]) add({first_of_class(v), axis, state});
}

void SliceCandidates::add(const Slice& slice) {
  auto& axes = found_[slice.value.index];
  if (static_cast<size_t>(slice.axis) >= axes.size()) return;
  std::vector<AxisState>& known = axes[static_cast<size_t>(slice.axis)];
  if (contains(known, slice.state) || known.size() >= kMostSlices) return;
  known.push_back(slice.state);
  left_.push_back(slice);
}

void SliceCandidates::add_kept(ValueId value, const Layout& layout) {
  for (int axis = 0; axis < layout.size(); ++axis)
    if (layout[axis].is(Kind::S)) add({value, axis, layout[axis]});
}

/// Every loop of an op that can be sliced is one of its operands and results.
void SliceCandidates::add_loops(OpId id) {
  const Op& op = graph_.op(id);
  const OpView view(module_, graph_, op);
  const FactorRule rule = factor_rule(view);
  const Mesh axes = mesh(id);
  const auto for_each_slice = [&](const TensorType& type, const std::vector<int>& factors, const auto& use) {
    for (size_t d = 0; d < factors.size(); ++d) {
      const Extent& extent = type.shape[d];
      if (factors[d] < 0 || rule.factors[static_cast<size_t>(factors[d])].role == Factor::Role::Whole) continue;
      for (int axis = 0; axis < static_cast<int>(axes.size()); ++axis)
        if (axes[static_cast<size_t>(axis)].size > 1 && !extent.is_run_time())
          for (const int64_t block : blocks_of(extent.bound, axes, axis))
            use(axis, AxisState::sliced(static_cast<int>(d), block));
    }
  };
  for (size_t i = 0; i < rule.inputs.size() && i < op.inputs.size(); ++i)
    if (op.inputs[i])
      for_each_slice(graph_.type(op.inputs[i]), rule.inputs[i],
                     [&](int axis, const AxisState& state) { add_operands(id, i, axis, state); });
  for (size_t r = 0; r < rule.outputs.size() && r < op.outputs.size(); ++r)
    for_each_slice(graph_.type(op.outputs[r]), rule.outputs[r], [&](int axis, const AxisState& state) {
      add({op.outputs[r], axis, state});
    });
}

/// Carries the slice forward to results of readers; visits one reader of each class.
void SliceCandidates::carry_forwards(const Slice& slice) {
  std::set<std::pair<int, size_t>> known;
  for (const OpId member : members(graph_.producer(slice.value)))
    for (const Use& use : graph_.value(graph_.op(member).outputs[graph_.value(slice.value).result]).uses)
      if (use.op && is_settled(graph_.op(use.op)) && known.emplace(classes_.of(use.op), use.input).second)
        carry_to(members(use.op).front(), use.input, slice);
}

void SliceCandidates::carry_to(OpId reader, size_t input, const Slice& slice) {
  const Op& op = graph_.op(reader);
  std::vector<Layout> arriving(op.inputs.size());
  arriving[input].set(slice.axis, slice.state);
  const OpLayouts settled = settle(OpView(module_, graph_, op), mesh(reader), arriving);
  if (!settled.refusal.empty()) return;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (op.inputs[i] && settled.operands[i][slice.axis].is(Kind::S))
      add_operands(reader, i, slice.axis, settled.operands[i][slice.axis]);
  for (size_t r = 0; r < op.outputs.size(); ++r)
    if (settled.results[r][slice.axis].is(Kind::S)) add({op.outputs[r], slice.axis, settled.results[r][slice.axis]});
}

/// Carries the slice back to the operands of the value's op.
void SliceCandidates::carry_backwards(const Slice& slice) {
  const OpId id = graph_.producer(slice.value);
  const Op& op = graph_.op(id);
  if (!is_settled(op)) return;
  const std::optional<OpLayouts> settled =
      settle_for(OpView(module_, graph_, op), mesh(id), std::vector<Layout>(op.inputs.size()), slice.axis,
                 graph_.value(slice.value).result, slice.state);
  for (size_t i = 0; settled && i < op.inputs.size(); ++i)
    if (op.inputs[i] && settled->operands[i][slice.axis].is(Kind::S))
      add_operands(id, i, slice.axis, settled->operands[i][slice.axis]);
}

}  // namespace weftc
