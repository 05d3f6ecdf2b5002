// The bookkeeping of fusion; the header describes its purpose.
#include "passes/fusion/fusion_state.h"

#include <algorithm>

#include "ir/named_lengths.h"
#include "passes/fusion/kernel_values.h"

namespace weftc {

bool is_loading_kind(OpKind kind) {
  switch (kind) {
    case OpKind::Gather:
    case OpKind::Concat:
    case OpKind::Pad:
    case OpKind::Tile:
      return true;
    default:
      return false;
  }
}

FusionState::FusionState(const Module& module, const Graph& graph, bool region, const Target& target)
    : module_(module),
      graph_(graph),
      target_(target),
      order_(graph.order()),
      position_(graph.op_capacity()),
      memory_(decide_memory(module, graph, order_, region)),
      quotient_(memory_.nodes) {
  fusion_.group_of.assign(graph.op_capacity(), -1);
  for (size_t i = 0; i < order_.size(); ++i) position_[order_[i].index] = static_cast<int>(i);
  add_edges();
}

bool FusionState::computes(OpId id) const {
  const Category c = category(op(id));
  return has_node(id) && c != Category::Collective && c != Category::Region && !is_alias(id);
}

bool FusionState::is_pointwise(OpId id) const {
  const Op& o = op(id);
  return category(o) == Category::Pointwise || is_loading_kind(o.kind) || is_copy(id) ||
         o.kind == OpKind::RandomUniform || is_pattern(o);
}

bool FusionState::is_copy(OpId id) const { return has_node(id) && is_load_view(op(id)) && !is_alias(id); }

ValueId FusionState::loaded(ValueId value) const {
  while (value && !has_node(graph_.producer(value)) && is_load_view(graph_.producer_op(value)))
    value = graph_.producer_op(value).inputs[0];
  return value;
}

void FusionState::add_edge(ValueId value, int to) {
  value = value ? loaded(value) : value;
  if (value && has_node(graph_.producer(value))) quotient_.add_edge(memory_.node_of[graph_.producer(value).index], to);
}

void FusionState::add_edges() {
  const LengthHolders lengths(graph_);
  for (OpId id : order_) {
    if (!has_node(id)) continue;
    const int node = memory_.node_of[id.index];
    for (ValueId v : op(id).inputs) add_edge(v, node);
    lengths.for_each(op(id), [&](ValueId v) { add_edge(v, node); });
  }
}

bool FusionState::loads_from(OpId id, int g) const {
  for (ValueId v : op(id).inputs) {
    if (!v) continue;
    const ValueId base = loaded(v);
    if (!base || group_of(graph_.producer(base)) != g) continue;
    if (base != v || is_loading(id)) return true;
  }
  return false;
}

int FusionState::start(OpId id, Category category) {
  const int g = static_cast<int>(fusion_.groups.size());
  fusion_.groups.push_back({category, id, {id}});
  fusion_.group_of[id.index] = g;
  return g;
}

void FusionState::put(OpId id, int g) {
  fusion_.groups[g].members.push_back(id);
  fusion_.group_of[id.index] = g;
}

void FusionState::miss(OpId id, int g, const std::string& why) {
  fusion_.near_misses.push_back(
      format("'{}' stays out of the kernel of '{}': {}", op(id).name, op(group(g).root).name, why));
}

Fusion FusionState::finish() {
  std::erase_if(fusion_.groups, [](const FusionGroup& g) { return g.members.empty(); });
  const auto earlier = [&](OpId a, OpId b) { return is_earlier(a, b); };
  for (FusionGroup& g : fusion_.groups) {
    std::sort(g.members.begin(), g.members.end(), earlier);
    // A pointwise kernel is named after its last value, a reduction's after its last reduction.
    if (g.category == Category::Pointwise) g.root = g.members.back();
    if (g.category != Category::Reduction) continue;
    for (OpId id : g.members)
      if (category(op(id)) == Category::Reduction) g.root = id;
  }
  std::sort(fusion_.groups.begin(), fusion_.groups.end(),
            [&](const FusionGroup& a, const FusionGroup& b) { return earlier(a.members.back(), b.members.back()); });
  for (size_t g = 0; g < fusion_.groups.size(); ++g)
    for (OpId id : fusion_.groups[g].members) fusion_.group_of[id.index] = static_cast<int>(g);
  fusion_.alias = std::move(memory_.alias);
  return std::move(fusion_);
}

}  // namespace weftc
