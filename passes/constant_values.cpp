// Follows operands up to their constants, to a bounded depth: few ops stand between a weight and its reader.
#include "passes/constant_values.h"

#include <algorithm>

#include "ir/op_def.h"

namespace weftc {

static bool is_constant_within(const Graph& graph, ValueId value, int depth) {
  const Op& op = graph.producer_op(value);
  if (op.kind == OpKind::Constant) return true;
  if (depth == 0 || (category(op) != Category::View && category(op) != Category::Pointwise)) return false;
  return std::all_of(op.inputs.begin(), op.inputs.end(),
                     [&](ValueId v) { return !v || is_constant_within(graph, v, depth - 1); });
}

bool is_made_of_constants(const Graph& graph, ValueId value) {
  constexpr int kDeepest = 8;
  return is_constant_within(graph, value, kDeepest);
}

}  // namespace weftc
