// Evaluates what depends on constants alone, so that no op at run time does.
//
//   %c = Mul(%w, %s)  with %w, %s constants  ->  %c = constant
//
// Views of initialisers that kernels read stay: the constant keeps its name and layout, and the kernel reads through
// the view. Ops that only generate many elements (Expand, Tile, Range of a scalar) stay too: a constant would be
// larger.
#include "ir/op_def.h"
#include "passes/passes.h"
#include "passes/prepare/fold.h"

namespace weftc {

namespace {

bool is_view_of_weight(const Graph& graph, const Op& op) {
  return category(op) == Category::View && graph.type(op.inputs[0]).count() > 16;
}

bool grows(const Graph& graph, const Op& op) {
  int64_t read = 0, made = 0;
  for (ValueId v : op.inputs)
    if (v) read += graph.type(v).count();
  for (ValueId v : op.outputs) made += graph.type(v).count();
  return made > 4096 && made > 2 * read;
}

void fold_graph(Module& module, Graph& graph) {
  for (OpId id : graph.order()) {
    for (Graph& region : graph.edit(id).regions) fold_graph(module, region);
    const Op& op = graph.op(id);
    if (is_foldable(module, graph, id) && !is_view_of_weight(graph, op) && !grows(graph, op))
      fold_op(module, graph, id);
  }
}

}  // namespace

void fold_constants(Module& module, const Env&) { fold_graph(module, module.graph); }

}  // namespace weftc
