// Ops that only move elements and are made of views and gathers: CenterCropPad (ONNX CenterCropPad-18),
// ReverseSequence-10, and AlignedOperand, with which the reader writes the broadcasting of opsets 1 to 6.
//
//   CenterCropPad 5 -> 3:  the middle three elements       3 -> 6:  one zero before, two after
//   ReverseSequence of a b c d with length 3:  c b a d
//   AlignedOperand(f32[2, 3, 4], f32[3], axis 1):  f32[3, 1]
#include "ir/ops/formula.h"
#include "ir/ops/index.h"
#include "ir/ops/operand_shapes.h"
#include "ir/ops/view.h"

namespace weftc {

namespace {

bool infer_center_crop_pad(const OpView& op, std::vector<TensorType>& results) {
  if (!is_given(op, 1, "shape", "shape") || !is_fixed(op, 0)) return false;
  Dims dims = op.dims(0);
  const std::vector<int64_t> shape = op.op().ints("shape");
  std::optional<std::vector<int64_t>> axes = op.axes("axes", static_cast<int>(dims.size()));
  if (!axes) return false;
  if (!op.op().has("axes")) axes = range_of(0, static_cast<int64_t>(dims.size()));
  if (axes->size() != shape.size())
    return op.fail("center-crop-pad-shape", "{} extents are given for {} axes", shape.size(), axes->size());
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0) return op.fail("center-crop-pad-shape", "the shape has the negative extent {}", shape[i]);
    dims[(*axes)[i]] = shape[i];
  }
  results = {{op.type(0).dtype, shape_of(dims), {}}};
  return true;
}

/// An odd element is cut or added at the end.
std::vector<ValueId> decompose_center_crop_pad(Builder& build, const OpView& op) {
  const Dims from = op.dims(0), to = op.result_type(0).dims();
  Term x(build, op.op().inputs[0]);
  Dims pads(2 * from.size(), 0);
  for (size_t d = 0; d < from.size(); ++d) {
    if (to[d] < from[d]) {
      const int64_t first = (from[d] - to[d]) / 2;
      x = x.slice(static_cast<int64_t>(d), first, first + to[d]);
    } else {
      pads[d] = (to[d] - from[d]) / 2;
      pads[from.size() + d] = to[d] - from[d] - pads[d];
    }
  }
  return {build.op(OpKind::Pad, {x.value()}, {{"pads", pads}})};
}

/// Lengths are data: one for each element of the batch dimension.
OperandShapes shape_of_sequence_lengths(const OpView& op) {
  return {{1, {op.type(0).shape[static_cast<size_t>(int_of(op.op(), "batch_axis"))]}}};
}

bool infer_reverse_sequence(const OpView& op, std::vector<TensorType>& results) {
  const int64_t batch = int_of(op.op(), "batch_axis"), time = int_of(op.op(), "time_axis");
  if (!(batch == 0 && time == 1) && !(batch == 1 && time == 0))
    return op.fail("reverse-sequence-axes", "batch_axis and time_axis are {} and {}, one must be 0, the other 1", batch,
                   time);
  if (!has_ndim(op, 0, 2) || !integer_operand(op, 1)) return false;
  return have_shapes(op, shape_of_sequence_lengths(op), "reverse-sequence-dims") && infer_same(op, results);
}

/// Element t comes from length - 1 - t if that is not negative, else from t. An impossible length is looked up outside
/// of a table, which the program reports.
std::vector<ValueId> decompose_reverse_sequence(Builder& build, const OpView& op) {
  const Term x(build, op.op().inputs[0]);
  const Shape shape = x.shape();
  const auto batch = static_cast<size_t>(int_of(op.op(), "batch_axis")), time = 1 - batch;
  const auto count = [&](size_t d) { return Term(build, build.length(length_of(shape[d]))); };
  const Extent lengths = op.extent(length_of(shape[time]) + 1);
  const Term length = gather(build, positions(build, DType::I64, lengths, 0, 1), {build, op.op().inputs[1]}, 0);
  Shape column(2, Extent{1});
  column[batch] = shape[batch];
  const Term step = positions(build, DType::I64, shape[time], static_cast<int>(time), 2);
  const Term mirrored = length.reshape_to(column) - 1 - step, from = (mirrored >= 0).choose(mirrored, step);
  const Term sequence = positions(build, DType::I64, shape[batch], static_cast<int>(batch), 2);
  const Term at = time == 0 ? from * count(1) + sequence : sequence * count(1) + from;
  Shape flat(shape.begin() + 1, shape.end());
  flat[0] = joined(op, shape, 0, 2);
  return {pick(build, x.reshape_to(flat), at, 0).value()};
}

/// Without `broadcast` the shapes must be equal. With it, operand 1 has the extents of operand 0 from `axis` on (or its
/// last ones) or 1 there, or is a single element.
bool infer_aligned_operand(const OpView& op, std::vector<TensorType>& results) {
  const Dims a = op.dims(0), b = op.dims(1);
  const bool broadcasts = int_of(op.op(), "broadcast");
  if (!broadcasts && a != b)
    return op.fail("broadcast-dims", "operands of shapes {} and {} must have one shape: 'broadcast' is 0", dims_text(a),
                   dims_text(b));
  const bool is_single = element_count(b) == 1 && b.size() <= a.size();
  const int64_t room = static_cast<int64_t>(a.size()) - static_cast<int64_t>(b.size());
  const int64_t axis = op.op().has("axis") ? from_front(op.op().integer("axis"), static_cast<int64_t>(a.size())) : room;
  bool fits = !broadcasts || is_single || (axis >= 0 && axis <= room);
  for (size_t d = 0; fits && broadcasts && !is_single && d < b.size(); ++d) fits = b[d] == a[axis + d] || b[d] == 1;
  if (!fits)
    return op.fail("broadcast-dims", "an operand of shape {} does not fit {} from axis {} on", dims_text(b),
                   dims_text(a), axis);
  Shape shape = op.type(1).shape;
  if (broadcasts && !is_single) shape.insert(shape.end(), room - axis, Extent{1, {}});
  results = {{op.type(1).dtype, shape, {}}};
  return true;
}

std::vector<ValueId> decompose_aligned_operand(Builder& build, const OpView& op) {
  return {build.reshape(op.op().inputs[1], op.result_type(0).dims())};
}

}  // namespace

const OpDef kCenterCropPad{.kind = OpKind::CenterCropPad,
                           .name = "CenterCropPad",
                           .onnx = {"CenterCropPad", 18},
                           .attrs = {{"axes", AttrType::Ints}, {"shape", AttrType::Ints}},
                           .inputs = {1, 2},
                           .constant_operands = {{1, "shape", AttrType::Ints}},
                           .infer = infer_center_crop_pad,
                           .decompose = decompose_center_crop_pad};

const OpDef kReverseSequence{.kind = OpKind::ReverseSequence,
                             .name = "ReverseSequence",
                             .onnx = {"ReverseSequence", 10},
                             .attrs = {{"batch_axis", AttrType::Int, 1}, {"time_axis", AttrType::Int, 0}},
                             .inputs = {2, 2},
                             .infer = infer_reverse_sequence,
                             .relate = [](const OpView& op) { return relations_of(op, shape_of_sequence_lengths(op)); },
                             .decompose = decompose_reverse_sequence};

const OpDef kAlignedOperand{.kind = OpKind::AlignedOperand,
                            .name = "AlignedOperand",
                            .onnx = {"AlignedOperand", 1, "weft"},
                            .attrs = {{"axis", AttrType::Int}, flag("broadcast", 0)},
                            .inputs = {2, 2},
                            .infer = infer_aligned_operand,
                            .decompose = decompose_aligned_operand};

}  // namespace weftc
