// MatMulNBits and GatherBlockQuantized of com.microsoft: weights of 2, 4 or 8 bits, with a scale and a zero point for
// each block of a row. Numbers of fewer bits than 8 lie in bytes, the first one in the lowest bits.
//
//   MatMulNBits(a, b, scales, zeros)          ->  MatMul(a, Transpose((b - zeros) * scales)), the weight made here,
//   where
//                                                 the pass narrow-weights has not made a BlockMatMul of it
//   GatherBlockQuantized(data, i, scales, z)  ->  (Gather(data, i) - Gather(z, i)) * Gather(scales, i)
#include <cmath>

#include "ir/ops/block_weight.h"
#include "ir/ops/formula.h"

namespace weftc {

namespace {

/// Number `i` of those packed into bytes, which begin at element `first`.
int64_t packed_number(const Tensor& bytes, int64_t first, int64_t i, int64_t bits) {
  const int64_t each = 8 / bits;
  return (bytes.integers[first + i / each] >> (i % each * bits)) & ((int64_t{1} << bits) - 1);
}

bool has_bits(const OpView& op) {
  const int64_t bits = int_of(op.op(), "bits");
  return bits == 2 || bits == 4 || bits == 8 ||
         op.fail("quantized-bits-unsupported", "weights of {} bits are not supported, only 2, 4 and 8", bits);
}

/// Of a >= 0 and b > 0, up to the largest numbers.
int64_t divided_up(int64_t a, int64_t b) { return a / b + (a % b != 0); }

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

/// The numbers of a MatMulNBits whose weight is known.
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
  /// Packed like the weight, one number each in the scales' type, or the middle of the range.
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

// GatherBlockQuantized of rows, with blocks along the last axis.

/// How many numbers of a row lie in one element of the data.
int64_t numbers_each(const OpView& op) { return 8 / int_of(op.op(), "bits"); }

bool infer_gather_quantized(const OpView& op, std::vector<TensorType>& results) {
  if (op.type(0).dtype != DType::U8)
    return op.fail("gather-quantized-unsupported", "data of element type {} is not supported, only u8",
                   dtype_name(op.type(0).dtype));
  if (!has_bits(op) || !has_ndim(op, 0, 2) || !is_fixed(op, 0) || !is_real_operand(op, 2)) return false;
  const int64_t ndim = op.type(0).ndim(), size = int_of(op.op(), "block_size");
  const std::optional<int64_t> gathered = op.axis("gather_axis", static_cast<int>(ndim)),
                               quantised = op.axis("quantize_axis", static_cast<int>(ndim));
  if (!gathered || !quantised) return false;
  if (*gathered != 0 || *quantised != ndim - 1)
    return op.fail("gather-quantized-unsupported", "only rows are gathered, with blocks along the last axis");
  const int64_t width = op.dims(0).back() * numbers_each(op);
  Dims scales = op.dims(0);
  scales.back() = size > 0 ? divided_up(width, size) : 0;
  if (size < 1 || width % size || op.dims(2) != scales)
    return op.fail("gather-quantized-dims", "scales of shape {} do not fit rows of {} numbers in blocks of {}",
                   dims_text(op.dims(2)), width, size);
  if (op.has(3) && op.dims(3).back() != divided_up(scales.back(), numbers_each(op)))
    return op.fail("gather-quantized-dims", "zero points of shape {} do not fit scales of shape {}",
                   dims_text(op.dims(3)), dims_text(scales));
  Shape shape = op.type(1).shape;
  for (int64_t d = 1; d + 1 < ndim; ++d) shape.push_back(op.type(0).shape[d]);
  shape.push_back({width, {}});
  results = {{op.type(2).dtype, shape, {}}};
  return true;
}

/// The numbers of the bytes of a last dimension, `count` of them, as i32 in a last dimension of their own.
Term unpacked(Builder& build, Term bytes, int64_t bits, int64_t count) {
  const int64_t each = 8 / bits, ndim = static_cast<int64_t>(bytes.dims().size());
  if (each == 1) return bytes.cast(DType::I32);
  std::vector<ValueId> parts;
  const double range = std::ldexp(1, static_cast<int>(bits));
  for (int64_t i = 0; i < each; ++i) {
    const Term number = bytes.cast(DType::I32) / std::pow(range, static_cast<double>(i)) % range;
    parts.push_back(build.op(OpKind::Unsqueeze, {number.value()}, {{"axes", Dims{ndim}}}));
  }
  Dims dims = bytes.dims();
  dims.back() *= each;
  const Term all = Term(build, build.op(OpKind::Concat, parts, {{"axis", ndim}})).reshape(dims);
  return all.slice(ndim - 1, 0, count);
}

std::vector<ValueId> decompose_gather_quantized(Builder& build, const OpView& op) {
  const std::vector<ValueId> in = op.op().inputs;
  const int64_t bits = int_of(op.op(), "bits"), size = int_of(op.op(), "block_size");
  const int64_t width = op.dims(0).back() * numbers_each(op), blocks = width / size;
  const bool has_zeros = op.has(3);
  const DType dtype = op.type(2).dtype;
  const auto rows = [&](int input) {
    return Term(build, build.op(OpKind::Gather, {in[input], in[1]}, {{"axis", int64_t{0}}}));
  };
  const auto by_block = [&](Term x, int64_t last) {
    Dims dims = x.dims();
    dims.back() = blocks, dims.push_back(last);
    return x.reshape(dims);
  };
  Term numbers = by_block(unpacked(build, rows(0), bits, width), size);
  if (has_zeros)
    numbers = numbers - by_block(unpacked(build, rows(3), bits, blocks), 1);
  else
    numbers = numbers - std::ldexp(1, static_cast<int>(bits) - 1);
  const Term scaled = numbers.cast(dtype) * by_block(rows(2), 1);
  Dims dims = scaled.dims();
  dims.pop_back();
  dims.back() = width;
  return {scaled.reshape(dims).value()};
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
                                   {"weight_prepacked", AttrType::Int, 0}},
                         .inputs = {3, 6},
                         .infer = infer_matmul_nbits,
                         .decompose = decompose_matmul_nbits};

const OpDef kGatherBlockQuantized{.kind = OpKind::GatherBlockQuantized,
                                  .name = "GatherBlockQuantized",
                                  .onnx = {"GatherBlockQuantized", 1, "com.microsoft"},
                                  .attrs = {{"bits", AttrType::Int, 4},
                                            {"block_size", AttrType::Int, 128},
                                            {"gather_axis", AttrType::Int, 0},
                                            {"quantize_axis", AttrType::Int, 1}},
                                  .inputs = {3, 4},
                                  .infer = infer_gather_quantized,
                                  .decompose = decompose_gather_quantized};

}  // namespace weftc
