// Follows Reshapes to the value whose memory they show.
#include "ir/value_memory.h"

namespace weftc {

bool is_copy(const Graph& graph, const Op& op) {
  return op.kind == OpKind::Reshape && graph.type(op.inputs[0]) == graph.type(op.outputs[0]);
}

ValueId memory_of(const Graph& graph, ValueId value) {
  for (const Op* op = &graph.producer_op(value); op->kind == OpKind::Reshape && !is_copy(graph, *op);
       op = &graph.producer_op(value))
    value = op->inputs[0];
  return value;
}

}  // namespace weftc
