// Questions that lay-in-memory, fusion and planning must answer alike: which op computes a view, and which ops can read
// a constant where constants lie.
#include "passes/fusion/kernel_values.h"

#include <algorithm>

namespace weftc {

bool is_load_view(const Op& op) {
  switch (op.kind) {
    case OpKind::Reshape:
    case OpKind::Transpose:
    case OpKind::Expand:
    case OpKind::Slice:
    case OpKind::Split:
      return true;
    default:
      return false;
  }
}

bool is_literal(const Graph& graph, const Op& op) {
  const TensorType* type = op.kind == OpKind::Constant ? &graph.type(op.outputs[0]) : nullptr;
  return type && type->count() == 1 && type->dtype != DType::String;
}

Category kernel_category(const Graph& body) {
  bool seen[16] = {};
  for (OpId id = body.first(); id; id = body.next(id)) seen[static_cast<int>(category(body.op(id)))] = true;
  const auto has = [&](Category c) { return seen[static_cast<int>(c)]; };
  for (Category c : {Category::Collective, Category::Contraction, Category::Reduction, Category::Scan})
    if (has(c)) return c;
  return has(Category::Index) && !has(Category::Pointwise) ? Category::Index : Category::Pointwise;
}

bool is_exchanged(const Graph& body, ValueId v, bool in_kernel) {
  const auto& uses = body.value(v).uses;
  return std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
    if (!use.op) return false;
    const Op& op = body.op(use.op);
    if (category(op) == Category::Collective) return !in_kernel || op.kind != OpKind::ShardSlice;
    if (op.kind == OpKind::Fused) return is_exchanged(op.regions[0], op.regions[0].inputs()[use.input]);
    const bool passes =
        op.kind == OpKind::Reshape || (in_kernel && (category(op) == Category::View || op.kind == OpKind::Cast));
    return passes && std::any_of(op.outputs.begin(), op.outputs.end(),
                                 [&](ValueId result) { return is_exchanged(body, result, in_kernel); });
  });
}

bool reads_weights(const Op& op, size_t input) {
  if (op.kind == OpKind::Loop) return input >= 2 + static_cast<size_t>(op.integer("carried"));
  if (op.kind == OpKind::If) return input > 0;
  if (op.kind == OpKind::Fused || op.kind == OpKind::Chunk)
    return !is_exchanged(op.regions[0], op.regions[0].inputs()[input], op.kind == OpKind::Fused);
  return category(op) != Category::Collective;
}

}  // namespace weftc
