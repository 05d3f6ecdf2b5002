// Derives loop shapes from types and reduces them; the header says how they are compared.
#include "passes/fusion/loop_shape.h"

#include <algorithm>

namespace weftc {

LoopShape loop_shape(const TensorType& type, const Op& op) {
  LoopShape loop{op.place, op.block.value_or(0), type.shape, {}};
  for (int a = 0; a < type.layout.size(); ++a)
    if (type.layout[a].is(AxisState::Kind::S)) loop.slices.push_back({a, type.layout[a]});
  return loop;
}

LoopShape reduced(LoopShape loop, const std::vector<int64_t>& axes, bool keepdims) {
  const auto is_reduced = [&](int d) { return std::find(axes.begin(), axes.end(), d) != axes.end(); };
  std::erase_if(loop.slices, [&](const auto& slice) { return is_reduced(slice.second.dim); });
  Shape shape;
  std::vector<int> moved(loop.shape.size());
  for (int d = 0; d < static_cast<int>(loop.shape.size()); ++d) {
    moved[d] = static_cast<int>(shape.size());
    if (!is_reduced(d))
      shape.push_back(loop.shape[d]);
    else if (keepdims)
      shape.push_back({1, {}});
  }
  for (auto& [axis, state] : loop.slices) state.dim = moved[state.dim];
  loop.shape = std::move(shape);
  return loop;
}

}  // namespace weftc
