// Matches the ops that follow a product against those that the library offers: a bias of one element a column, then
// Relu or the tanh form of Gelu.
#include "passes/strategy/library_epilogue.h"

#include <algorithm>

#include "ir/gelu.h"
#include "ir/op_def.h"

namespace weftc {

/// Whether every row of a tensor of the shape of `of` gets the same numbers from `bias`.
static bool is_bias(const Graph& graph, ValueId bias, ValueId of) {
  const Shape &shape = graph.type(bias).shape, &result = graph.type(of).shape;
  return !shape.empty() && !result.empty() && shape.back() == result.back() && !shape.back().is_run_time() &&
         std::all_of(shape.begin(), shape.end() - 1, [](const Extent& e) { return e.bound == 1; });
}

static std::optional<EpilogueStep> bias_step(const Graph& graph, ValueId value) {
  for (const Use& use : graph.value(value).uses) {
    if (!use.op || graph.op(use.op).kind != OpKind::Add) continue;
    const ValueId other = graph.op(use.op).inputs[1 - use.input];
    if (!is_bias(graph, other, value) || graph.type(graph.result(use.op)).shape != graph.type(value).shape) continue;
    return EpilogueStep{{use.op}, graph.result(use.op), other, Activation::None, graph.value(value).uses.size() == 1};
  }
  return {};
}

static std::optional<EpilogueStep> activation_step(const Graph& graph, const Constants& constants, ValueId value) {
  for (const Use& use : graph.value(value).uses)
    if (use.op && graph.op(use.op).kind == OpKind::Relu)
      return EpilogueStep{{use.op}, graph.result(use.op), {}, Activation::Relu, graph.value(value).uses.size() == 1};
  const std::optional<Gelu> gelu = find_gelu(graph, constants, value, OpKind::Tanh);
  if (!gelu) return {};
  return EpilogueStep{gelu->ops, gelu->result, {}, Activation::Gelu, gelu->is_alone};
}

std::optional<EpilogueStep> next_epilogue_step(const Graph& graph, const Constants& constants, ValueId value,
                                               const std::vector<EpilogueStep>& before) {
  if (!before.empty() && before.back().activation != Activation::None) return {};
  if (before.empty())
    if (std::optional<EpilogueStep> step = bias_step(graph, value)) return step;
  return activation_step(graph, constants, value);
}

}  // namespace weftc
