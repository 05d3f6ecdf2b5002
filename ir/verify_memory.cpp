// Checks which values are in memory, from lay-in-memory on. A reader that is not a kernel (a collective, a condition, a
// loop) finds its operand in a buffer, and each result of a region has a buffer of its own.
#include <set>

#include "ir/op_def.h"
#include "ir/value_memory.h"
#include "ir/verify_rules.h"

namespace weftc {

namespace {

bool is_constant(const Graph& graph, ValueId v) { return v && graph.producer_op(v).kind == OpKind::Constant; }

/// Operands that an op outside of kernels reads from a buffer: [first, end).
std::pair<size_t, size_t> stored_operands(const Op& op) {
  if (category(op) == Category::Collective || op.kind == OpKind::If) return {0, 1};
  if (op.kind == OpKind::Loop) return {2, 2 + static_cast<size_t>(op.integer("carried"))};
  return {0, 0};
}

}  // namespace

void verify_memory(const Graph& graph, const Op& op, Findings& findings) {
  const auto [first, end] = stored_operands(op);
  for (size_t i = first; i < end; ++i)
    if (is_constant(graph, op.inputs[i]))
      findings.add(op, "operand {} ('{}') is a constant and must lie in a buffer", i, graph.value(op.inputs[i]).name);
}

void verify_region_memory(const Graph& region, const Op& owner, Findings& findings) {
  const bool loops = owner.kind == OpKind::Loop;
  std::set<ValueId> seen;
  for (size_t i = 0; i < region.outputs().size(); ++i) {
    const ValueId value = region.outputs()[i].value;
    // A loop may pass a parameter on, and a condition that never changes is not a value of the Plan.
    if (loops && (region.inputs()[i + 1] == value || (i == 0 && is_constant(region, value)))) continue;
    const ValueId memory = memory_of(region, value);
    if (is_constant(region, value)) findings.add(owner, "result {} of a region is a constant", i);
    if (region.producer_op(memory).kind == OpKind::Input)
      findings.add(owner, "result {} of a region is the memory of parameter '{}'", i, region.value(memory).name);
    if (!seen.insert(memory).second)
      findings.add(owner, "result {} of a region shares its memory with another result", i);
  }
}

}  // namespace weftc
