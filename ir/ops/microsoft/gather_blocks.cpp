// GatherBlockQuantized of com.microsoft: elements of a table of quantized numbers. Each block along one axis has a
// scale and optionally a zero point. A byte holds one number, or several of 4 or 2 bits along the last axis, the first
// one in the lowest bits. Integers of 4 bits and floats of 8 and 4 bits are separate elements.
//
//   GatherBlockQuantized(data, i, scales, zeros)  ->  (Gather(data, i) - Gather(zeros, i)) * Gather(scales, i)
//
// An index outside of the table gives zeros.
#include <cmath>

#include "ir/ops/block_weight.h"
#include "ir/ops/formula.h"

namespace weftc {

namespace {

/// Axes, and the extents along the quantized one.
struct BlockedTable {
  int64_t gathered = 0, quantised = 0;
  int64_t numbers = 0, size = 0, blocks = 0;
  int64_t each = 1;  // numbers in an element of the data
};

/// The axes and extents, if the axes are valid; nothing after reporting.
std::optional<BlockedTable> table_of(const OpView& op) {
  const int ndim = op.type(0).ndim();
  const std::optional<int64_t> gathered = op.axis("gather_axis", ndim), quantised = op.axis("quantize_axis", ndim);
  if (!gathered || !quantised) return {};
  const bool is_packed = op.type(0).dtype == DType::U8;
  const int64_t bits = int_of(op.op(), "bits"), size = int_of(op.op(), "block_size");
  if (is_packed && !fits_bytes(bits))
    return op.fail("quantized-bits-unsupported", "weights of {} bits are not supported, only 2, 4 and 8", bits),
           std::nullopt;
  if (is_packed && (*gathered != 0 || *quantised == 0))
    return op.fail("gather-quantized-axes", "of bytes axis 0 is gathered and another one is quantized, not {} and {}",
                   *gathered, *quantised),
           std::nullopt;
  BlockedTable table{*gathered, *quantised};
  table.each = is_packed ? 8 / bits : 1;
  table.numbers = op.dims(0)[static_cast<size_t>(*quantised)] * (*quantised == ndim - 1 ? table.each : 1);
  table.size = size == 0 && is_small_float(op.type(0).dtype) ? std::max<int64_t>(table.numbers, 1) : size;
  if (table.size < 1)
    return op.fail("gather-quantized-dims", "'block_size' is {}, it must be at least 1", size), std::nullopt;
  table.blocks = divided_up(table.numbers, table.size);
  return table;
}

/// Scales of floats repeat along an axis of extent 1.
bool fit_scales(const OpView& op, const BlockedTable& table) {
  const Dims data = op.dims(0), scales = op.dims(2);
  if (scales.size() != data.size()) return false;
  for (size_t d = 0; d < data.size(); ++d) {
    const bool is_quantised = d == static_cast<size_t>(table.quantised);
    const int64_t unpacked = data[d] * (d + 1 == data.size() ? table.each : 1);
    const bool repeats = is_small_float(op.type(0).dtype) && !is_quantised && scales[d] == 1;
    if (!repeats && scales[d] != (is_quantised ? table.blocks : unpacked)) return false;
  }
  return true;
}

bool fit_zeros(const OpView& op, const BlockedTable& table) {
  Dims packed = op.dims(2);
  packed.back() = divided_up(packed.back(), table.each);
  return op.dims(3) == packed;
}

/// `dims` with `axis` replaced by the dimensions of the indices.
Shape gathered_shape(const Shape& dims, int64_t axis, const Shape& indices) {
  Shape shape(dims.begin(), dims.begin() + axis);
  shape.insert(shape.end(), indices.begin(), indices.end());
  shape.insert(shape.end(), dims.begin() + axis + 1, dims.end());
  return shape;
}

bool infer_gather_quantized(const OpView& op, std::vector<TensorType>& results) {
  const DType dtype = op.type(0).dtype;
  if (dtype != DType::U8 && dtype != DType::I4 && dtype != DType::U4 &&
      (!is_small_float(dtype) || dtype == DType::F8E8M0))
    return op.fail("gather-quantized-unsupported", "data of element type {} is not supported", dtype_name(dtype));
  if (!has_ndim(op, 0, 1) || !is_fixed(op, 0) || !is_real_operand(op, 2)) return false;
  if (!is_integer(op.type(1).dtype))
    return op.fail("index-dtype", "indices have element type {}, an integer type is needed",
                   dtype_name(op.type(1).dtype));
  const std::optional<BlockedTable> table = table_of(op);
  if (!table) return false;
  if (!fit_scales(op, *table))
    return op.fail("gather-quantized-dims", "scales of shape {} do not fit data of shape {} in blocks of {}",
                   dims_text(op.dims(2)), dims_text(op.dims(0)), table->size);
  if (op.has(3) && is_small_float(dtype))
    return op.fail("gather-quantized-zeros", "data of element type {} has no zero points", dtype_name(dtype));
  if (op.has(3) && (!fit_zeros(op, *table) || op.type(3).dtype != dtype))
    return op.fail("gather-quantized-dims", "zero points {}[{}] do not fit scales of shape {}",
                   dtype_name(op.type(3).dtype), dims_text(op.dims(3)), dims_text(op.dims(2)));
  Shape data = op.type(0).shape;
  data.back().bound *= table->each;
  results = {{op.type(2).dtype, gathered_shape(data, table->gathered, op.type(1).shape), {}}};
  return true;
}

/// The numbers in the bytes of a last dimension, `count` of them, as i32.
Term unpacked(Builder& build, Term bytes, int64_t each, int64_t count) {
  if (each == 1) return bytes;
  const int64_t last = static_cast<int64_t>(bytes.dims().size());
  std::vector<ValueId> parts;
  const double range = std::ldexp(1, static_cast<int>(8 / each));
  for (int64_t i = 0; i < each; ++i) {
    const Term number = bytes.cast(DType::I32) / std::pow(range, static_cast<double>(i)) % range;
    parts.push_back(build.op(OpKind::Unsqueeze, {number.value()}, {{"axes", Dims{last}}}));
  }
  Shape shape = bytes.shape();
  shape.back().bound *= each;
  const Term all = Term(build, build.op(OpKind::Concat, parts, {{"axis", last}})).reshape_to(shape);
  return all.slice(last - 1, 0, count);
}

/// Builds the parts of the formula, each with the dimensions of the result.
class GatheredTable {
 public:
  GatheredTable(Builder& build, const OpView& op)
      : build_(build), op_(op), table_(*table_of(op)), index_(build, op.op().inputs[1]) {
    const double extent = static_cast<double>(op.dims(0)[static_cast<size_t>(table_.gathered)]);
    const Term from_front = (index_ < 0).choose(index_ + extent, index_);
    is_inside_ = (from_front >= 0 && from_front < extent).value();
    index_ = from_front.clamp(0, extent - 1);
  }

  Term numbers() const { return unpacked(build_, picked(0, index_), table_.each, op_.result_type(0).dims().back()); }

  /// One scale or zero point for each number of `like`.
  Term of_blocks(int operand) const {
    const bool is_along = table_.gathered == table_.quantised, is_packed = operand == 3;
    const Term index = is_along ? index_ / static_cast<double>(table_.size) : index_;
    const Term found = unpacked(build_, picked(operand, index), is_packed ? table_.each : 1, op_.dims(2).back());
    return is_along || table_.blocks == 1 ? found : repeated(found);
  }

  /// Zeros where the index is outside of the table.
  Term inside(Term y) const {
    Shape shape = index_.shape();
    shape.insert(shape.end(), static_cast<size_t>(op_.type(0).ndim() - 1 - table_.gathered), Extent{1});
    return Term(build_, is_inside_).reshape_to(shape).choose(y, y.scalar(0));
  }

 private:
  Term picked(int operand, Term index) const {
    const Term data(build_, op_.op().inputs[static_cast<size_t>(operand)]);
    const int64_t axis = table_.gathered;
    if (operand == 0 || data.dims()[static_cast<size_t>(axis)] > 1) return pick(build_, data, index, axis);
    const Shape ones(index.shape().size(), Extent{1});
    return data.reshape_to(gathered_shape(data.shape(), axis, ones));
  }

  /// Repeats each element along the quantized axis for all numbers of its block.
  Term repeated(Term blocks) const {
    const int64_t indices = op_.type(1).ndim();
    const auto at = static_cast<size_t>(table_.quantised + (table_.quantised > table_.gathered ? indices - 1 : 0));
    Shape apart = blocks.shape(), joined = apart;
    apart.insert(apart.begin() + static_cast<long>(at) + 1, Extent{1});
    const Term column = blocks.reshape_to(apart);
    apart[at + 1].bound = table_.size, joined[at].bound = table_.blocks * table_.size;
    const ValueId wide = build_.op(OpKind::Expand, {column.value()}, {{"shape", bounds(apart)}});
    const Term all = Term(build_, build_.with_lengths(wide, apart)).reshape_to(joined);
    return joined[at].bound == table_.numbers ? all : all.slice(static_cast<int64_t>(at), 0, table_.numbers);
  }

  Builder& build_;
  const OpView& op_;
  const BlockedTable table_;
  Term index_;
  ValueId is_inside_;
};

std::vector<ValueId> decompose_gather_quantized(Builder& build, const OpView& op) {
  const DType stored = op.type(0).dtype, dtype = op.type(2).dtype;
  if (op.type(0).count() == 0) {
    const Shape shape = op.result_type(0).shape;
    const ValueId zero = build.constant(Tensor::scalar(dtype, 0));
    return {build.with_lengths(build.op(OpKind::Expand, {zero}, {{"shape", bounds(shape)}}), shape)};
  }
  const GatheredTable table(build, op);
  const Term scale = table.of_blocks(2);
  if (is_small_float(stored)) return {table.inside(table.numbers().cast(dtype) * scale).value()};
  Term numbers = table.numbers().cast(DType::I32);
  if (op.has(3)) numbers = numbers - table.of_blocks(3).cast(DType::I32);
  if (!op.has(3) && stored == DType::U8)
    numbers = numbers - std::ldexp(1, static_cast<int>(int_of(op.op(), "bits")) - 1);
  return {table.inside(numbers.cast(dtype) * scale).value()};
}

}  // namespace

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
