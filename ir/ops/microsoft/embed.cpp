// EmbedLayerNormalization of com.microsoft: the first layer of BERT, look-ups of words, positions and segments and a
// LayerNormalization of their sum.
#include "ir/ops/formula.h"

namespace weftc {

namespace {

constexpr int kWords = 2, kPlaces = 3, kSegments = 4, kGamma = 5, kBeta = 6, kMask = 7, kPositions = 8;

bool infer_embed(const OpView& op, std::vector<TensorType>& results) {
  for (int i : {kWords, kPlaces, kGamma})
    if (!op.has(i)) return op.fail("embed-operand", "operand {} is left out", i);
  if (!has_ndim(op, 0, 2, 2) || !has_ndim(op, kWords, 2, 2) || !is_real_operand(op, kWords)) return false;
  if (!has_ndim(op, kPlaces, 2, 2)) return false;
  const Extent width = op.type(kWords).shape[1], sequence = op.type(0).shape[1];
  if (op.has(1) != op.has(kSegments))
    return op.fail("embed-segments", "segment_ids and segment_embedding come together or not at all");
  if (!op.has(kPositions) && !sequence.is_run_time() && sequence.bound > op.dims(kPlaces)[0])
    return op.fail("embed-positions", "a sequence of {} is longer than the {} positions", sequence.bound,
                   op.dims(kPlaces)[0]);
  const TensorType sum{op.type(kWords).dtype, {op.type(0).shape[0], sequence, width}, {}};
  results = {sum, {DType::I32, {op.type(0).shape[0]}, {}}, sum};
  return true;
}

/// The rows of the table's first positions, or of the positions in the model's operand.
Term places(Builder& build, const OpView& op, const std::vector<ValueId>& in) {
  const Term table(build, in[kPlaces]);
  if (op.has(kPositions)) return gather(build, table, {build, in[kPositions]}, 0);
  const Extent& sequence = op.type(0).shape[1];
  Term at = positions(build, DType::I64, sequence.bound, 0, 1);
  if (sequence.is_run_time()) at = {build, build.with_lengths(at.value(), {sequence})};
  return gather(build, table, at, 0);
}

std::vector<ValueId> decompose_embed(Builder& build, const OpView& op) {
  const Op& own = op.op();
  const std::vector<ValueId> in = own.inputs;
  const bool has_segments = op.has(1), has_beta = op.has(kBeta), has_mask = op.has(kMask);
  const Extent batch = op.type(0).shape[0];
  Term sum = gather(build, {build, in[kWords]}, {build, in[0]}, 0) + places(build, op, in);
  if (has_segments) sum = sum + gather(build, {build, in[kSegments]}, {build, in[1]}, 0);
  std::vector<ValueId> operands = {sum.value(), in[kGamma]};
  if (has_beta) operands.push_back(in[kBeta]);
  const ValueId normal =
      build.op(OpKind::LayerNormalization, operands, {{"axis", int64_t{-1}}, {"epsilon", real_of(own, "epsilon")}});
  const bool counts = own.outputs.size() > 1 && own.outputs[1];
  ValueId lengths;
  if (counts && has_mask)
    lengths = Term(build, in[kMask]).cast(DType::I32).reduce(OpKind::ReduceSum, {1}, false).value();
  if (counts && !has_mask)
    lengths = build.with_lengths(constant(build, DType::I32, {batch.bound}, {}).value(), {batch});
  return {normal, lengths, sum.value()};
}

}  // namespace

const OpDef kEmbedLayerNormalization{
    .kind = OpKind::EmbedLayerNormalization,
    .name = "EmbedLayerNormalization",
    .onnx = {"EmbedLayerNormalization", 1, "com.microsoft"},
    .attrs = {{"epsilon", AttrType::Real, 1e-12}, {"mask_index_type", AttrType::Int, 0}},
    .inputs = {1, 9},
    .outputs = {1, 3},
    .infer = infer_embed,
    .decompose = decompose_embed};

}  // namespace weftc
