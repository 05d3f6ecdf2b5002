// RotaryEmbedding of com.microsoft: ONNX's with its operands in another order, and optionally one position for all
// rows, at which each sequence starts.
#include "ir/ops/formula.h"
#include "ir/ops/operand_shapes.h"

namespace weftc {

namespace {

/// Sequence and heads; a flat operand without num_heads has heads of twice the cache's columns.
struct HeadRows {
  Extent batch, sequence;
  int64_t heads;
  bool is_flat;
};
HeadRows rows_of(const OpView& op) {
  const Dims x = op.dims(0);
  const bool is_flat = x.size() == 3;
  int64_t heads = int_of(op.op(), "num_heads");
  if (heads == 0) heads = is_flat ? x[2] / std::max<int64_t>(1, 2 * op.dims(2)[1]) : x[1];
  return {op.type(0).shape[0], op.type(0).shape[x.size() - 2], heads, is_flat};
}

/// One position for all sequences, or one for each element of each sequence.
OperandShapes position_shape(const OpView& op) {
  const HeadRows rows = rows_of(op);
  return {{1, op.type(1).ndim() == 2 ? Shape{rows.batch, rows.sequence} : Shape(op.type(1).shape.size(), Extent{1})}};
}

bool infer_rotary(const OpView& op, std::vector<TensorType>& results) {
  if (!has_ndim(op, 0, 3, 4) || !has_ndim(op, 2, 2, 2) || !has_ndim(op, 3, 2, 2)) return false;
  const int last = op.type(0).ndim() - 1;
  if (!is_fixed_dim(op, 0, last) || (last == 3 && !is_fixed_dim(op, 0, 1)) || !is_fixed(op, 2) || !is_fixed(op, 3))
    return false;
  if (int_of(op.op(), "is_packed_batching") || real_of(op.op(), "scale") != 1)
    return op.fail("rotary-attribute-unsupported", "is_packed_batching and scale are not supported");
  const HeadRows rows = rows_of(op);
  const int64_t size = rows.is_flat && rows.heads > 0 ? op.dims(0)[2] / rows.heads : op.dims(0).back();
  const int64_t given = int_of(op.op(), "rotary_embedding_dim"), turned = given ? given : size;
  if (rows.heads < 1 || turned > size || turned != 2 * op.dims(2)[1])
    return op.fail("rotary-dims", "{} heads do not fit shapes {} and {}", rows.heads, dims_text(op.dims(0)),
                   dims_text(op.dims(2)));
  if (!have_shapes(op, position_shape(op), "rotary-dims")) return false;
  return infer_same(op, results);
}

std::vector<ValueId> decompose_rotary(Builder& build, const OpView& op) {
  const std::vector<ValueId> in = op.op().inputs;
  const HeadRows rows = rows_of(op);
  const Shape shape{rows.batch, rows.sequence};
  const Attrs attrs = {{"interleaved", int_of(op.op(), "interleaved")},
                       {"num_heads", rows.heads},
                       {"rotary_embedding_dim", int_of(op.op(), "rotary_embedding_dim")}};
  Term at = Term(build, in[1]).cast(DType::I64);
  if (op.type(1).ndim() != 2) {
    at = at.reshape({1, 1}) + positions(build, DType::I64, rows.sequence, 1, 2);
    at = {build, build.with_lengths(at.expand(bounds(shape)).value(), shape)};
  }
  return {build.op(OpKind::RotaryEmbedding, {in[0], in[2], in[3], at.value()}, attrs)};
}

}  // namespace

const OpDef kMicrosoftRotaryEmbedding{.kind = OpKind::MicrosoftRotaryEmbedding,
                                      .name = "MicrosoftRotaryEmbedding",
                                      .onnx = {"RotaryEmbedding", 1, "com.microsoft"},
                                      .attrs = {flag("interleaved", 0),
                                                flag("is_packed_batching", 0),
                                                {"num_heads", AttrType::Int, 0},
                                                {"rotary_embedding_dim", AttrType::Int, 0},
                                                {"scale", AttrType::Real, 1.0}},
                                      .inputs = {4, 4},
                                      .infer = infer_rotary,
                                      .relate = [](const OpView& op) { return relations_of(op, position_shape(op)); },
                                      .decompose = decompose_rotary};

}  // namespace weftc
