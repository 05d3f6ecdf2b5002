// Names and sizes of element types, shapes, and the states of a layout's axes.
#include "ir/type.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "ir/base/text.h"
#include "ir/string_table.h"

namespace weftc {

namespace {
struct DTypeRow {
  DType dtype;
  const char* name;
  int64_t bytes;
  int onnx_bits;
};
constexpr DTypeRow kDTypes[] = {
    {DType::F32, "f32", 4, 32},
    {DType::F64, "f64", 8, 64},
    {DType::F16, "f16", 2, 16},
    {DType::BF16, "bf16", 2, 16},
    {DType::I8, "i8", 1, 8},
    {DType::I16, "i16", 2, 16},
    {DType::I32, "i32", 4, 32},
    {DType::I64, "i64", 8, 64},
    {DType::U8, "u8", 1, 8},
    {DType::U16, "u16", 2, 16},
    {DType::U32, "u32", 4, 32},
    {DType::U64, "u64", 8, 64},
    {DType::Bool, "bool", 1, 8},
    {DType::F8E4M3FN, "f8e4m3fn", 1, 8},
    {DType::F8E4M3FNUZ, "f8e4m3fnuz", 1, 8},
    {DType::F8E5M2, "f8e5m2", 1, 8},
    {DType::F8E5M2FNUZ, "f8e5m2fnuz", 1, 8},
    {DType::F8E8M0, "f8e8m0", 1, 8},
    {DType::F4E2M1, "f4e2m1", 1, 4},
    {DType::F6E2M3, "f6e2m3", 1, 6},
    {DType::F6E3M2, "f6e3m2", 1, 6},
    {DType::I4, "i4", 1, 4},
    {DType::U4, "u4", 1, 4},
    {DType::I2, "i2", 1, 2},
    {DType::U2, "u2", 1, 2},
    {DType::String, "string", 1 + kMostStringBytes, 8 * (1 + kMostStringBytes)},
};
constexpr const char* kReduceNames[] = {"sum", "max", "min", "prod"};
}  // namespace

const char* dtype_name(DType dtype) { return kDTypes[static_cast<int>(dtype)].name; }
int64_t dtype_bytes(DType dtype) { return kDTypes[static_cast<int>(dtype)].bytes; }
int onnx_bits(DType dtype) { return kDTypes[static_cast<int>(dtype)].onnx_bits; }
int64_t onnx_bytes(DType dtype, int64_t count) {
  const int bits = onnx_bits(dtype);
  return bits < 8 ? (count * bits + 7) / 8 : count * (bits / 8);
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DTypeRow& row : kDTypes)
    if (name == row.name) return row.dtype;
  return {};
}

bool is_float(DType dtype) { return dtype <= DType::BF16 || is_small_float(dtype); }

bool is_signed_int(DType dtype) {
  return dtype == DType::I8 || dtype == DType::I16 || dtype == DType::I32 || dtype == DType::I64 ||
         dtype == DType::I4 || dtype == DType::I2;
}

int64_t element_count(const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

Dims strides_of(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (int d = static_cast<int>(dims.size()) - 2; d >= 0; --d) strides[d] = strides[d + 1] * dims[d + 1];
  return strides;
}

Shape shape_of(const Dims& dims) {
  Shape shape;
  for (int64_t d : dims) shape.push_back({d, {}});
  return shape;
}

bool Extent::operator==(const Extent& other) const {
  if (bound != other.bound || is_run_time() != other.is_run_time()) return false;
  return length == other.length || *length == *other.length;
}

Extent run_time_extent(int64_t bound, const Length& length) { return {bound, std::make_shared<const Length>(length)}; }

Length length_of(const Extent& extent) { return extent.length ? *extent.length : Length(extent.bound); }

std::string shape_text(const Shape& shape) {
  if (shape.empty()) return "scalar";
  std::vector<std::string> parts;
  for (const Extent& extent : shape) {
    const std::string bound = std::to_string(extent.bound);
    parts.push_back(extent.is_run_time() ? "(" + extent.length->text() + "<=" + bound + ")" : bound);
  }
  return join(parts, "x");
}

Dims bounds(const Shape& shape) {
  Dims dims;
  for (const Extent& e : shape) dims.push_back(e.bound);
  return dims;
}

bool is_static(const Shape& shape) {
  return std::none_of(shape.begin(), shape.end(), [](const Extent& e) { return e.is_run_time(); });
}

const char* reduce_name(ReduceOp op) { return kReduceNames[static_cast<int>(op)]; }

std::optional<ReduceOp> parse_reduce(std::string_view name) {
  for (size_t i = 0; i < std::size(kReduceNames); ++i)
    if (name == kReduceNames[i]) return static_cast<ReduceOp>(i);
  return {};
}

double reduce_identity(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return 0;
    case ReduceOp::Max:
      return -std::numeric_limits<double>::infinity();
    case ReduceOp::Min:
      return std::numeric_limits<double>::infinity();
    case ReduceOp::Prod:
      return 1;
  }
  return 0;
}

void Layout::set(int axis, AxisState state) {
  if (axis >= size()) axes_.resize(axis + 1);
  axes_[axis] = state;
  while (!axes_.empty() && axes_.back().is(AxisState::Kind::R)) axes_.pop_back();
}

bool Layout::has(AxisState::Kind kind) const {
  return std::any_of(axes_.begin(), axes_.end(), [&](const AxisState& s) { return s.is(kind); });
}

}  // namespace weftc
