// Products with a weight of few bits. The pass narrow-weights makes them from MatMulNBits and from products that read a
// DequantizeLinear. k is cut into blocks; each block of a column has a scale and a zero point:
//
//   a [.., m, blocks, size]      floats; last two dimensions: k
//   words [n, blocks, words]     u32: neighbours along k, the first in the lowest bits, as in MatMulNBits
//   terms [n, blocks, 2]         f32: scale and zero point
//   y [.., m, n] = sum over blocks b, places i of a[.., m, b, i] * (number[n, b, i] - terms[n, b, 1]) * terms[n, b, 0]
#include "ir/ops/record.h"

namespace weftc {

namespace {

bool infer_block_matmul(const OpView& op, std::vector<TensorType>& results) {
  if (!is_real_operand(op, 0) || !has_ndim(op, 0, 3) || !has_ndim(op, 1, 3, 3)) return false;
  const Shape& a = op.type(0).shape;
  const Dims words = op.dims(1), size = {a[a.size() - 2].bound, a.back().bound};
  const bool fits = op.type(1).dtype == DType::U32 && op.type(2).dtype == DType::F32 &&
                    op.dims(2) == Dims{words[0], words[1], 2} && size[0] == words[1] &&
                    size[1] * int_of(op.op(), "bits") == words[2] * 32;
  if (!fits)
    return op.fail("block-matmul-dims", "words of shape {} do not fit an operand of shape {}", dims_text(words),
                   dims_text(bounds(a)));
  Shape shape(a.begin(), a.end() - 2);
  shape.push_back({words[0], {}});
  results = {{op.type(0).dtype, shape, {}}};
  return true;
}

/// Factors: dimensions of the result, then blocks, which are summed. The steps of a block, its words, its scale and its
/// zero point are whole.
FactorRule factors_block_matmul(const OpView& op) {
  const Dims words = op.dims(1);
  FactorRule rule = pass_rule(op.result_type(0).shape);
  const int n = static_cast<int>(rule.factors.size()) - 1, blocks = n + 1;
  const auto whole = [](int64_t extent) { return Factor{extent, Factor::Role::Whole, ReduceOp::Sum}; };
  rule.factors.push_back({words[1], Factor::Role::Reduce, ReduceOp::Sum});
  for (const int64_t extent : {op.dims(0).back(), words[2], int64_t{2}}) rule.factors.push_back(whole(extent));
  std::vector<int> a, y;
  for (int d = 0; d <= n; ++d) y.push_back(d);
  a.assign(y.begin(), y.end() - 1);
  a.insert(a.end(), {blocks, blocks + 1});
  rule.inputs = {a, {n, blocks, blocks + 2}, {n, blocks, blocks + 3}};
  rule.outputs = {y};
  return rule;
}

void eval_block_matmul(EvalContext& context) {
  const Tensor &a = context.in(0), &words = context.in(1), &terms = context.in(2);
  const int64_t n = words.dims[0], blocks = words.dims[1], each = words.dims[2], size = a.dims.back();
  const int64_t bits = context.op.integer("bits"), rows = a.size() / std::max<int64_t>(1, blocks * size);
  Tensor result(context.result_dtypes[0], context.result_dims[0]);
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t column = 0; column < n; ++column) {
      double sum = 0;
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t at = column * blocks + b;
        for (int64_t i = 0; i < size; ++i) {
          const int64_t word = words.integers[at * each + i * bits / 32];
          const auto number = static_cast<double>((word >> (i * bits % 32)) & ((int64_t{1} << bits) - 1));
          sum += a.real[(m * blocks + b) * size + i] * (number - terms.real[2 * at + 1]) * terms.real[2 * at];
        }
      }
      result.put(m * n + column, sum);
    }
  context.results[0] = std::move(result);
}

}  // namespace

const OpDef kBlockMatMul{.kind = OpKind::BlockMatMul,
                         .name = "BlockMatMul",
                         .attrs = {{"bits", AttrType::Int, {}, true}},
                         .inputs = {3, 3},
                         .category = Category::Contraction,
                         .infer = infer_block_matmul,
                         .factors = factors_block_matmul,
                         .linear = {{0}},
                         .eval = eval_block_matmul};

}  // namespace weftc
