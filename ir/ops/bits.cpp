// BitShift (ONNX BitShift-28) of integers, and BitCast-26: pointwise ops. Their text depends on an attribute that the
// op's import or its operand's type sets.
#include "ir/ops/pointwise.h"

namespace weftc {

namespace {

/// BitShift has a direction, which the scalar texts use as an integer.
bool import_bit_shift(Graph& graph, OpId id, int, const OpView& view) {
  graph.edit(id).set("left", int64_t{text_of(view.op(), "direction") == "LEFT"});
  return true;
}

/// Shifts an integer. Bits beyond the type are cut when the result is stored. Right shifts copy the sign; only unsigned
/// integers of 64 bits need another shift.
int64_t shifted(int64_t x, int64_t bits, bool left, DType dtype) {
  const auto value = static_cast<uint64_t>(x), count = static_cast<uint64_t>(bits);
  if (left) return count > 63 ? 0 : static_cast<int64_t>(value << count);
  if (dtype == DType::U64) return count > 63 ? 0 : static_cast<int64_t>(value >> count);
  return x >> std::min<uint64_t>(count, 63);
}

/// BitCast-26: another type of the same width.
bool infer_bit_cast(const OpView& op, std::vector<TensorType>& results) {
  const DType from = op.type(0).dtype, to = dtype_of_attr(int_of(op.op(), "to"));
  if (dtype_bytes(from) != dtype_bytes(to))
    return op.fail("bit-cast-width", "the bits of {} are not as many as those of {}", dtype_name(from), dtype_name(to));
  return infer_cast(op, results);
}

void canonical_bit_cast(Op& op, const OpView& view) {
  const DType from = view.type(0).dtype;
  op.set("stored", int64_t{from == DType::F16 ? 1 : from == DType::BF16 ? 2 : 0});
}

void eval_bit_cast(EvalContext& context) {
  context.results[0] =
      tensor_from_bytes(context.result_dtypes[0], context.result_dims[0], tensor_to_bytes(context.in(0)));
}

bool import_bit_cast(Graph& graph, OpId id, int, const OpView& view) { return import_dtype(graph, id, "to", view); }

}  // namespace

const OpDef kBitShift{.kind = OpKind::BitShift,
                      .name = "BitShift",
                      .onnx = {"BitShift", 11},
                      .attrs = {choice("direction", {}, "LEFT RIGHT"),
                                {.name = "left", .type = AttrType::Int, .otherwise = 0, .is_own = true}},
                      .inputs = {2, 2},
                      .category = Category::Pointwise,
                      .import = import_bit_shift,
                      .infer = infer_bits,
                      .scalar = "$left ? weft::shift_left<$T>($0, $1) : weft::shift_right<$T>($0, $1)",
                      .int_value = [](const int64_t* x, const Op& op,
                                      DType dtype) { return shifted(x[0], x[1], int_of(op, "left"), dtype); },
                      .eval = eval_pointwise};

const OpDef kBitCast{.kind = OpKind::BitCast,
                     .name = "BitCast",
                     .onnx = {"BitCast", 26},
                     .attrs = {{.name = "stored", .type = AttrType::Int, .otherwise = 0, .is_own = true},
                               {"to", AttrType::Int, {}, true}},
                     .category = Category::Pointwise,
                     .import = import_bit_cast,
                     .infer = infer_bit_cast,
                     .canonicalize = canonical_bit_cast,
                     .scalar = "weft::bit_cast<$R, $stored>($0)",
                     .eval = eval_bit_cast};

}  // namespace weftc
