// Dimensions of gathers and scatters from their attributes, canonical or as in a model.
#include "ir/looked_up_dims.h"

#include "ir/op_def.h"

namespace weftc {

std::optional<LookedUpDims> looked_up_dims(const Op& op, const TensorType& data, const TensorType& indices) {
  switch (op.kind) {
    case OpKind::Gather:
    case OpKind::GatherElements:
    case OpKind::ScatterElements:
      return LookedUpDims{.first = static_cast<int>(from_front(int_of(op, "axis"), data.ndim()))};
    case OpKind::GatherND:
    case OpKind::ScatterND:
      return LookedUpDims{.first = op.kind == OpKind::GatherND ? static_cast<int>(int_of(op, "batch_dims")) : 0,
                          .count = static_cast<int>(indices.shape.back().bound),
                          .has_tuples = true};
    default:
      return {};
  }
}

}  // namespace weftc
