// The loops that computing a value needs, in a form that can be compared. Two ops can share one loop nest only if their
// loop shapes are equal (or, for a reduction, if one is the other without the reduced dims).
//   MatMul f32[64,768] sliced {tp: 1}, then Gelu of it      -> equal: the Gelu may run on the product's elements
//   the same values, one reduced over tp and one partial     -> equal: R and P differ in what a loop writes, not in it
#pragma once
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace weftc {

/// The ranks and the block that run an op, the extents of its loops and how the mesh axes slice them.
struct LoopShape {
  PlaceId place;
  int block;
  Shape shape;                                    // global extents
  std::vector<std::pair<int, AxisState>> slices;  // (mesh axis, S state); R and P change no loop and are left out
  bool operator==(const LoopShape&) const = default;
};

/// The loops over every element of a value of `type` that `op` makes or reads.
LoopShape loop_shape(const TensorType& type, const Op& op);

/// The loops over the results of a reduction of `loop` over the dims `axes`: they keep extent 1 if `keepdims`, else
/// they are dropped, and slices of later dims are renumbered. A slice of a reduced dim disappears (its result is
/// partial).
LoopShape reduced(LoopShape loop, const std::vector<int64_t>& axes, bool keepdims);

}  // namespace weftc
