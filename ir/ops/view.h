// Rules about shapes that several view records share. A view moves elements and computes nothing.
// backend/element_view.cpp handles its effect on an index of a kernel, passes/layout/layout_rules.cpp (L5) its effect
// on a slice.
#pragma once
#include "ir/ops/record.h"

namespace weftc {

/// The operand's elements in a shape with known bounds, to which run-time lengths of the operand are assigned; nothing
/// after reporting.
std::optional<Shape> reshaped(const OpView& op, const Dims& dims);

/// One dimension of a Slice: `count` elements from `start` on, `step` apart.
struct SliceDim {
  int64_t start, step, count;
};
/// All dimensions, clamped as in ONNX; nothing after reporting.
std::optional<std::vector<SliceDim>> slice_dims(const OpView& op);

/// `count` elements of a value along a dimension, `step` apart, from a start that a run decides. They are gathered by
/// their positions, which must all be inside.
ValueId elements_from(Builder& build, ValueId x, int64_t axis, const Extent& count, const Length& start,
                      int64_t step = 1);

}  // namespace weftc
