// Replaces composite ops by primitives, as their records say.
//
//   %y = Softmax(%x) {axis = 1}   ->   %m = ReduceMax(%x), %d = Sub(%x, %m), %e = Exp(%d), %s = ReduceSum(%e), Div(%e,
//   %s)
#include "passes/passes.h"
#include "passes/prepare/replace_by_parts.h"

namespace weftc {

namespace {

void decompose_graph(Module& module, Graph& graph, Diags& diags) {
  // New ops stand in front of the one replaced, so going on from its predecessor visits them next.
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

}  // namespace

void decompose(Module& module, const Env& env) { decompose_graph(module, module.graph, env.diags); }

}  // namespace weftc
