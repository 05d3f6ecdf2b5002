// MatMulNBits of com.microsoft: weights of 2, 4 or 8 bits, with a scale and a zero point for each block of a row.
// Numbers of fewer than 8 bits are packed into bytes, the first one in the lowest bits.
//   MatMulNBits(a, b, scales, zeros)  ->  MatMul(a, Transpose((b - zeros) * scales)), the weight made here, where the
//                                         pass narrow-weights has not made a BlockMatMul of it
#include "ir/ops/block_weight.h"
#include "ir/ops/formula.h"

namespace weftc {

namespace {

/// Number `i` of the numbers packed into bytes from element `first` on.
int64_t packed_number(const Tensor& bytes, int64_t first, int64_t i, int64_t bits) {
  const int64_t each = 8 / bits;
  return (bytes.integers[first + i / each] >> (i % each * bits)) & ((int64_t{1} << bits) - 1);
}

bool has_bits(const OpView& op) {
  const int64_t bits = int_of(op.op(), "bits");
  return fits_bytes(bits) ||
         op.fail("quantized-bits-unsupported", "weights of {} bits are not supported, only 2, 4 and 8", bits);
}

// MatMulNBits.

struct Blocks {
  int64_t n, k, size, count, bits;
};
Blocks blocks_of(const OpView& op) {
  const int64_t k = op.op().integer("K"), size = op.op().integer("block_size");
  return {op.op().integer("N"), k, size, size > 0 ? divided_up(k, size) : 0, int_of(op.op(), "bits")};
}

bool infer_matmul_nbits(const OpView& op, std::vector<TensorType>& results) {
  if (!is_real_operand(op, 0) || !has_ndim(op, 0, 1) || !has_bits(op)) return false;
  const Blocks b = blocks_of(op);
  if (op.has(4)) return op.fail("matmul-nbits-unsupported", "the operand g_idx is not supported");
  if (op.op().integer_or("weight_prepacked", 0) != 0)
    return op.fail("matmul-nbits-unsupported", "weights that are packed for one machine are not supported");
  for (int i = 1; i < std::min(4, op.inputs()); ++i)
    if (op.has(i) && !op.known(i))
      return op.fail("matmul-nbits-unsupported", "a weight that is no constant is not supported");
  if (!is_real_operand(op, 2)) return false;
  const bool fits = b.size > 0 && b.n > 0 && b.k > 0 && op.dims(0).back() == b.k && op.type(1).dtype == DType::U8 &&
                    op.type(1).count() == b.n * b.count * divided_up(b.size * b.bits, 8) &&
                    op.type(2).count() == b.n * b.count;
  if (!fits)
    return op.fail("matmul-nbits-dims",
                   "{} columns of {} in blocks of {} do not fit a weight of shape {} and {} scales", b.n, b.k, b.size,
                   dims_text(op.dims(1)), op.type(2).count());
  if (op.has(3)) {
    const int64_t packed = b.n * divided_up(b.count * b.bits, 8);
    if (op.type(3).count() != (op.type(3).dtype == DType::U8 ? packed : b.n * b.count))
      return op.fail("matmul-nbits-dims", "zero points of shape {} do not fit {} blocks of {} columns",
                     dims_text(op.dims(3)), b.count, b.n);
  }
  Shape shape = op.type(0).shape;
  shape.back() = {b.n, {}};
  results = {{op.type(0).dtype, shape, {}}};
  return true;
}

/// The numbers of a MatMulNBits with a constant weight.
class KnownWeight {
 public:
  explicit KnownWeight(const OpView& op)
      : blocks_(blocks_of(op)),
        packed_(*op.known(1)),
        scales_(*op.known(2)),
        zeros_(op.has(3) ? op.known(3) : std::nullopt),
        block_bytes_(divided_up(blocks_.size * blocks_.bits, 8)) {}

  int64_t number(int64_t n, int64_t k) const {
    const int64_t first = (n * blocks_.count + k / blocks_.size) * block_bytes_;
    return packed_number(packed_, first, k % blocks_.size, blocks_.bits);
  }
  double scale(int64_t n, int64_t block) const { return scales_.real[n * blocks_.count + block]; }
  /// The zero point of a block: packed like the weight, or one number in the scales' type; by default the middle of the
  /// range.
  double zero(int64_t n, int64_t block) const {
    if (!zeros_) return static_cast<double>(int64_t{1} << (blocks_.bits - 1));
    if (zeros_->is_real()) return zeros_->real[n * blocks_.count + block];
    const int64_t row = n * divided_up(blocks_.count * blocks_.bits, 8);
    return static_cast<double>(packed_number(*zeros_, row, block, blocks_.bits));
  }

 private:
  const Blocks blocks_;
  const Tensor packed_, scales_;
  const std::optional<Tensor> zeros_;
  const int64_t block_bytes_;
};

/// The weight [N, K] in the type of the first operand.
Tensor unpacked_weight(const OpView& op) {
  const Blocks b = blocks_of(op);
  const KnownWeight known(op);
  Tensor weight(op.type(0).dtype, {b.n, b.k});
  for (int64_t n = 0; n < b.n; ++n)
    for (int64_t k = 0; k < b.k; ++k) {
      const int64_t block = k / b.size;
      weight.put(n * b.k + k, (static_cast<double>(known.number(n, k)) - known.zero(n, block)) * known.scale(n, block));
    }
  return weight;
}

std::vector<ValueId> decompose_matmul_nbits(Builder& build, const OpView& op) {
  const std::vector<ValueId> in = op.op().inputs;
  const Term weight(build, build.constant(unpacked_weight(op)));
  const Term y = product({build, in[0]}, weight.transpose({1, 0}));
  return {in.size() > 5 && in[5] ? (y + Term(build, in[5])).value() : y.value()};
}

}  // namespace

bool nbits_fits_block_matmul(const OpView& op) {
  const Blocks b = blocks_of(op);
  return fits_block_matmul({b.n, b.k, b.size, b.bits});
}

BlockWeight nbits_weight(const OpView& op) {
  const Blocks b = blocks_of(op);
  return block_weight({b.n, b.k, b.size, b.bits}, KnownWeight(op));
}

const OpDef kMatMulNBits{.kind = OpKind::MatMulNBits,
                         .name = "MatMulNBits",
                         .onnx = {"MatMulNBits", 1, "com.microsoft"},
                         .attrs = {{"K", AttrType::Int, {}, true},
                                   {"N", AttrType::Int, {}, true},
                                   {"accuracy_level", AttrType::Int, 0},
                                   {"bits", AttrType::Int, 4},
                                   {"block_size", AttrType::Int, {}, true},
                                   flag("weight_prepacked", 0)},
                         .inputs = {3, 6},
                         .infer = infer_matmul_nbits,
                         .decompose = decompose_matmul_nbits};

}  // namespace weftc
