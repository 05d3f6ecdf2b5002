// Evaluates ops that depend on constants alone, so that no op does at run time.
//
//   %c = Mul(%w, %s)  with %w, %s constants  ->  %c = constant
//
// Views of initialisers that kernels read stay: the constant keeps its name and layout, and the kernel reads through
// the view. Ops that only generate many elements (Expand, Tile, Range of a scalar) stay too: a constant would be
// larger. A product reads a weight of 16 bits as it is.
#include <algorithm>

#include "ir/op_def.h"
#include "passes/passes.h"
#include "passes/prepare/fold.h"

namespace weftc {

namespace {

bool is_view_of_weight(const Graph& graph, const Op& op) {
  return category(op) == Category::View && graph.type(op.inputs[0]).count() > 16;
}

/// A weight of products alone that is stored in 16 bits, and becomes floats here: lower-precision makes the products
/// read it as it is stored.
bool is_widened_weight(const Graph& graph, const Op& op) {
  constexpr int64_t kFew = 16384;  // decompose folds up to this many
  if (!widens_to_float(graph, op) || graph.type(op.inputs[0]).count() <= kFew) return false;
  const std::vector<Use>& uses = graph.value(op.outputs[0]).uses;
  return std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
    const OpKind reader = use.op ? graph.op(use.op).kind : OpKind::Input;
    return use.input == 1 && (reader == OpKind::MatMul || reader == OpKind::Gemm);
  });
}

/// How many elements constants may become more by folding. Many small steps together have the same limit as one large
/// step: twenty joints of a constant with itself would make a million times as many elements.
struct Room {
  int64_t left = int64_t{1} << 22;

  /// True, with less room from then on, where the op's results fit.
  bool take(const Graph& graph, const Op& op) {
    constexpr int64_t kFew = 4096;
    int64_t read = 0, made = 0;
    for (ValueId v : op.inputs)
      if (v) read += graph.type(v).count();
    for (ValueId v : op.outputs) made += graph.type(v).count();
    if (made <= kFew || made <= read) return true;
    if (made > 2 * read || made - read > left) return false;
    left -= made - read;
    return true;
  }
};

void fold_graph(Module& module, Graph& graph, Room& room) {
  for (OpId id : graph.order()) {
    for (Graph& region : graph.edit(id).regions) fold_graph(module, region, room);
    const Op& op = graph.op(id);
    if (is_foldable(module, graph, id) && !is_view_of_weight(graph, op) && !is_widened_weight(graph, op) &&
        room.take(graph, op))
      fold_op(module, graph, id);
  }
}

}  // namespace

void fold_constants(Module& module, const Env&) {
  Room room;
  fold_graph(module, module.graph, room);
}

}  // namespace weftc
