// Replaces composite ops by primitives, as their records say.
//
//   %y = Softmax(%x) {axis = 1}   ->   %m = ReduceMax(%x), %d = Sub(%x, %m), %e = Exp(%d), %s = ReduceSum(%e), Div(%e,
//   %s)
#include <algorithm>

#include "ir/op_def.h"
#include "passes/passes.h"
#include "passes/prepare/fold.h"
#include "passes/prepare/replace_by_parts.h"

namespace weftc {

namespace {

void decompose_graph(Module& module, Graph& graph, Diags& diags) {
  // New ops are inserted before the one they replace, so the walk from its predecessor visits them next.
  for (OpId id = graph.first(); id;) {
    for (Graph& region : graph.edit(id).regions) decompose_graph(module, region, diags);
    if (!decomposes(OpView(module, graph, graph.op(id), &diags))) {
      id = graph.next(id);
      continue;
    }
    const OpId before = graph.previous(id);
    if (replace_by_parts(module, graph, id, diags).empty()) {
      id = graph.next(id);
      continue;
    }
    id = before ? graph.next(before) : graph.first();
  }
}

constexpr int64_t kSmall = 16384;

bool is_small(const Graph& graph, const Op& op) {
  return op.outputs.size() == 1 && is_static(graph.type(op.outputs[0]).shape) &&
         graph.type(op.outputs[0]).count() <= kSmall;
}

/// A constant, or a small view of one.
bool is_small_constant(const Module& module, const Graph& graph, ValueId value) {
  const OpId made = graph.producer(value);
  const Op& op = graph.op(made);
  return op.kind == OpKind::Constant ||
         (category(op) == Category::View && is_small(graph, op) && is_foldable(module, graph, made));
}

/// Folds small results that decompositions compute from constants, such as a product of two scales: kernels would
/// compute them again in every run. A view stays where nothing but a view is to compute. True if there are any.
bool fold_small(Module& module, Graph& graph) {
  bool folds = false;
  for (OpId id : graph.order()) {
    for (Graph& region : graph.edit(id).regions) folds |= fold_small(module, region);
    const Op op = graph.op(id);  // NOLINT(performance-unnecessary-copy-initialization): folding moves ops
    const bool computes = category(op) == Category::Pointwise || category(op) == Category::Reduction;
    if (!computes || !is_small(graph, op) || op.inputs.empty() || op.kind == OpKind::RandomUniform) continue;
    const auto is_known = [&](ValueId v) { return v && is_small_constant(module, graph, v); };
    if (!std::all_of(op.inputs.begin(), op.inputs.end(), is_known)) continue;
    for (size_t i = 0; i < op.inputs.size(); ++i)  // an operand may occur twice
      if (const ValueId v = graph.op(id).inputs[i]; graph.producer_op(v).kind != OpKind::Constant)
        fold_op(module, graph, graph.producer(v));
    if (!is_foldable(module, graph, id)) continue;
    fold_op(module, graph, id);
    folds |= !graph.is_live(id);  // an op that a run is to refuse stays
  }
  return folds;
}

/// Kernels of a grid have no functions of strings: the first op that reads or makes some is named. False after that.
bool has_no_strings(const Module& module, const Graph& graph, Diags& diags) {
  for (OpId id : graph.order()) {
    const Op& op = graph.op(id);
    const auto is_string = [&](ValueId v) { return v && graph.type(v).dtype == DType::String; };
    if (op.kind != OpKind::Constant && op.kind != OpKind::Input &&
        (std::any_of(op.inputs.begin(), op.inputs.end(), is_string) ||
         std::any_of(op.outputs.begin(), op.outputs.end(), is_string))) {
      diags.error("strings-target-unsupported", module.loc(op), "strings are computed on the host target only");
      return false;
    }
    for (const Graph& region : op.regions)
      if (!has_no_strings(module, region, diags)) return false;
  }
  return true;
}

}  // namespace

void decompose(Module& module, const Env& env) {
  // The decomposition of an op may depend on a number that only folding computes, as Pow on its exponent.
  do decompose_graph(module, module.graph, env.diags);
  while (env.diags.ok() && fold_small(module, module.graph));
  if (env.target.has_grid() && has_no_strings(module, module.graph, env.diags))
    for (const Graph::Output& out : module.graph.outputs())
      if (module.graph.type(out.value).dtype == DType::String)
        env.diags.error("strings-target-unsupported", Loc::in_file(module.file),
                        "output '{}' is of strings, which are on the host target only", printable(out.name));
}

}  // namespace weftc
