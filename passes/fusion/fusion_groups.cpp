// Groups ops into kernels, greedily: the largest gain first, each round in graph order.
//   1. contractions, with the pointwise ops and a transposition after each (grow_contraction)
//   2. reductions over equal axes of one shape, with pointwise ops around them (grow_reduction)
//   3. pointwise ops over one shape (grow_pointwise)
//   4. any other op alone (scans, scatters)
// An op that an earlier round took is out of reach of a later one. A merge that made a cycle through another kernel is
// refused, and nothing is computed twice but views and literals. The kernels of one layer of GPT-2 for the host, by the
// names of their nodes:
//
//   ln_1 | c_attn, qkv_bias | scores, scaled, masked | softmax | mixed, joined, flat | c_proj, bias, residual
//   ln_2 | c_fc, fc_bias, act.* | c_proj, bias, residual
#include "passes/fusion/fusion_groups.h"

#include "passes/fusion/grow.h"

namespace weftc {

namespace {

/// A kernel of one op. A view that is stored is copied element by element, as a pointwise kernel does.
void start_alone(FusionState& state, OpId id) {
  const Category own = category(state.op(id));
  state.start(id, own == Category::View ? Category::Pointwise : own);
}

}  // namespace

bool is_carried_along(const Graph& graph, const Fusion& fusion, OpId id) {
  const Op& op = graph.op(id);
  if (fusion.group_of[id.index] >= 0 || fusion.alias[id.index]) return false;
  return is_load_view(op) || is_literal(graph, op) || is_pattern(op);
}

Fusion decide_fusion(const Module& module, const Graph& graph, const Target& target, bool region) {
  FusionState state(module, graph, region, target);
  const auto is_free = [&](OpId id, Category c) { return !state.taken(id) && category(state.op(id)) == c; };
  std::vector<OpId> ops = state.order();
  std::erase_if(ops, [&](OpId id) { return !state.computes(id); });
  for (OpId id : ops)
    if (is_free(id, Category::Contraction)) grow_contraction(state, id);
  for (OpId id : ops)
    if (is_free(id, Category::Reduction)) grow_reduction(state, id);
  for (OpId id : ops)
    if (state.is_pointwise(id) && !state.taken(id)) grow_pointwise(state, id);
  for (OpId id : ops)
    if (!state.taken(id)) start_alone(state, id);
  return state.finish();
}

std::string fusion_text(const Graph& graph, const Fusion& fusion) {
  std::string text;
  for (const FusionGroup& g : fusion.groups) {
    std::vector<std::string> names;
    for (OpId id : g.members) names.push_back(std::string(op_def(graph.op(id)).name) + " " + graph.op(id).name);
    text += format("{} {}: {}\n", category_name(g.category), graph.op(g.root).name, join(names, ", "));
  }
  for (const std::string& miss : fusion.near_misses) text += miss + "\n";
  return text;
}

}  // namespace weftc
