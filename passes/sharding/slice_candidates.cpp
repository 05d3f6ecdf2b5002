#include "passes/sharding/slice_candidates.h"

#include "ir/base/contains.h"
#include "ir/op_def.h"
#include "passes/layout/layout_rules.h"

namespace weftc {

namespace {

using Kind = AxisState::Kind;

// So many slices of one value on one axis are kept: blocks of ever smaller parts come of long chains of views.
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

SliceCandidates::SliceCandidates(const Module& module, const Graph& graph, const KeptLayouts& kept)
    : module_(module), graph_(graph) {
  found_.resize(graph.value_capacity());
  for (const OpId id : graph.order())
    for (const ValueId v : graph.op(id).outputs) found_[v.index].resize(mesh(id).size());
  for (const OpId id : graph.order())
    for (const ValueId v : graph.op(id).outputs)
      if (const std::optional<Layout> layout = kept.of(v)) add_kept(v, *layout);
  for (const OpId id : graph.order())
    if (is_settled(graph.op(id)) && category(graph.op(id)) != Category::View) add_loops(id);
  while (!left_.empty()) {
    const Slice slice = left_.back();
    left_.pop_back();
    carry_forwards(slice);
    carry_backwards(slice);
  }
}

const std::vector<AxisState>& SliceCandidates::of(ValueId value, int axis) const {
  return found_[value.index][static_cast<size_t>(axis)];
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
  const auto add_dims = [&](ValueId value, const std::vector<int>& factors) {
    for (size_t d = 0; value && d < factors.size(); ++d) {
      const Extent& extent = graph_.type(value).shape[d];
      if (factors[d] < 0 || rule.factors[static_cast<size_t>(factors[d])].role == Factor::Role::Whole) continue;
      for (int axis = 0; axis < static_cast<int>(axes.size()); ++axis)
        if (axes[static_cast<size_t>(axis)].size > 1 && !extent.is_run_time())
          for (const int64_t block : blocks_of(extent.bound, axes, axis))
            add({value, axis, AxisState::sliced(static_cast<int>(d), block)});
    }
  };
  for (size_t i = 0; i < rule.inputs.size() && i < op.inputs.size(); ++i) add_dims(op.inputs[i], rule.inputs[i]);
  for (size_t r = 0; r < rule.outputs.size() && r < op.outputs.size(); ++r) add_dims(op.outputs[r], rule.outputs[r]);
}

/// What readers make of the slice.
void SliceCandidates::carry_forwards(const Slice& slice) {
  for (const Use& use : graph_.value(slice.value).uses) {
    if (!use.op || !is_settled(graph_.op(use.op))) continue;
    const Op& op = graph_.op(use.op);
    std::vector<Layout> arriving(op.inputs.size());
    arriving[use.input].set(slice.axis, slice.state);
    const OpLayouts settled = settle(OpView(module_, graph_, op), mesh(use.op), arriving);
    if (!settled.refusal.empty()) continue;
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (op.inputs[i] && settled.operands[i][slice.axis].is(Kind::S))
        add({op.inputs[i], slice.axis, settled.operands[i][slice.axis]});
    for (size_t r = 0; r < op.outputs.size(); ++r)
      if (settled.results[r][slice.axis].is(Kind::S)) add({op.outputs[r], slice.axis, settled.results[r][slice.axis]});
  }
}

/// Of what the slice is made.
void SliceCandidates::carry_backwards(const Slice& slice) {
  const OpId id = graph_.producer(slice.value);
  const Op& op = graph_.op(id);
  if (!is_settled(op)) return;
  const std::optional<OpLayouts> settled =
      settle_for(OpView(module_, graph_, op), mesh(id), std::vector<Layout>(op.inputs.size()), slice.axis,
                 graph_.value(slice.value).result, slice.state);
  for (size_t i = 0; settled && i < op.inputs.size(); ++i)
    if (op.inputs[i] && settled->operands[i][slice.axis].is(Kind::S))
      add({op.inputs[i], slice.axis, settled->operands[i][slice.axis]});
}

}  // namespace weftc
