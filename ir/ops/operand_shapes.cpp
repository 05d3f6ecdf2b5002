// Conditions of composite ops on the shapes of their operands, and on the lengths that a request gives these.
#include "ir/ops/operand_shapes.h"

namespace weftc {

/// True if a value of `shape` could have shape `wanted`.
static bool may_be(const Shape& shape, const Shape& wanted) {
  if (shape.size() != wanted.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d)
    if (!one_extent(shape[d], wanted[d])) return false;
  return true;
}

bool have_shapes(const OpView& op, const OperandShapes& wanted, const char* id) {
  for (const auto& [input, shape] : wanted)
    if (op.has(input) && !may_be(op.type(input).shape, shape))
      return op.fail(id, "operand {} has shape {}, {} is needed", input, shape_text(op.type(input).shape),
                     shape_text(shape));
  return true;
}

std::vector<LengthRelation> relations_of(const OpView& op, const OperandShapes& wanted) {
  std::vector<LengthRelation> relations;
  for (const auto& [input, shape] : wanted)
    for (size_t d = 0; op.has(input) && d < shape.size(); ++d)
      relations.push_back({"", length_of(shape[d]), length_of(op.type(input).shape[d])});
  return relations;
}

ValueId with_bounds(Builder& build, ValueId x, Shape shape) {
  TensorType type = build.type(x);
  type.shape = std::move(shape);
  build.graph().retype(x, std::move(type));
  return x;
}

}  // namespace weftc
