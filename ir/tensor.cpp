// Element types with their rounding, bytes and wrap-around, for folding and the reference. It is not optimised.
#include "ir/tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/base/check.h"
#include "ir/small_float.h"
#include "ir/string_table.h"

namespace weftc {

Tensor::Tensor(DType type, Dims shape) : dtype(type), dims(std::move(shape)) {
  if (is_real())
    real.assign(size(), 0);
  else
    integers.assign(size(), 0);
}

Tensor Tensor::scalar(DType dtype, double value) {
  Tensor t(dtype, {});
  t.put(0, value);
  return t;
}

Tensor Tensor::ints(const std::vector<int64_t>& values) {
  Tensor t(DType::I64, {static_cast<int64_t>(values.size())});
  t.integers = values;
  return t;
}

int64_t wrap(DType dtype, int64_t v) {
  switch (dtype) {
    case DType::I8:
      return static_cast<int8_t>(v);
    case DType::I16:
      return static_cast<int16_t>(v);
    case DType::I32:
      return static_cast<int32_t>(v);
    case DType::U8:
      return static_cast<uint8_t>(v);
    case DType::U16:
      return static_cast<uint16_t>(v);
    case DType::U32:
      return static_cast<uint32_t>(v);
    case DType::Bool:
      return v != 0;
    case DType::U4:
      return v & 15;
    case DType::U2:
      return v & 3;
    case DType::I4:
      return ((v & 15) ^ 8) - 8;
    case DType::I2:
      return ((v & 3) ^ 2) - 2;
    default:
      return v;
  }
}

void Tensor::put(int64_t i, double value) {
  if (is_real()) {
    real[i] = value;
  } else if (dtype == DType::Bool) {
    integers[i] = value != 0;
  } else if (dtype == DType::U64 && value >= 9223372036854775808.0) {
    integers[i] = static_cast<int64_t>(value >= 18446744073709551616.0 ? UINT64_MAX : static_cast<uint64_t>(value));
  } else if (value >= -9223372036854775808.0 && value < 9223372036854775808.0) {
    integers[i] = wrap(dtype, static_cast<int64_t>(value));
  } else {
    integers[i] = wrap(dtype, INT64_MIN);  // result of x86 conversions for NaN and out-of-range values
  }
}

void Tensor::put_int(int64_t i, int64_t value) {
  if (is_real())
    real[i] = static_cast<double>(value);
  else
    integers[i] = wrap(dtype, value);
}

void Tensor::copy_element(int64_t i, const Tensor& source, int64_t from) {
  if (is_real())
    real[i] = source.real[from];
  else
    integers[i] = source.integers[from];
}

double half_to_double(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 31) return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

uint16_t double_to_half(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const double magnitude = std::fabs(value);
  if (magnitude >= 65520) return sign | 0x7c00;
  if (magnitude < std::ldexp(1, -14)) return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 24)));
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent, f in [0.5, 1)
  const auto mantissa = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, 11 - exponent)));  // 1024 .. 2048
  return sign | static_cast<uint16_t>(((exponent + 13) << 10) + mantissa);  // a carry moves into the exponent
}

double bfloat16_to_double(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t double_to_bfloat16(double value) {
  if (std::isnan(value)) return 0x7fc0;
  const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::F32:
      return static_cast<float>(value);
    case DType::F16:
      return half_to_double(double_to_half(value));
    case DType::BF16:
      return bfloat16_to_double(double_to_bfloat16(value));
    default:
      return is_small_float(dtype) ? small_float_to_double(dtype, double_to_small_float(dtype, value)) : value;
  }
}

template <class T>
static T load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

static void load_element(Tensor& t, int64_t i, const std::byte* p) {
  switch (t.dtype) {
    case DType::F32:
      t.real[i] = load<float>(p);
      break;
    case DType::F64:
      t.real[i] = load<double>(p);
      break;
    case DType::F16:
      t.real[i] = half_to_double(load<uint16_t>(p));
      break;
    case DType::BF16:
      t.real[i] = bfloat16_to_double(load<uint16_t>(p));
      break;
    case DType::I8:
      t.integers[i] = wrap(t.dtype, load<uint8_t>(p));
      break;
    case DType::I16:
      t.integers[i] = load<int16_t>(p);
      break;
    case DType::I32:
      t.integers[i] = load<int32_t>(p);
      break;
    case DType::I64:
    case DType::U64:
      t.integers[i] = load<int64_t>(p);
      break;
    case DType::U8:
      t.integers[i] = load<uint8_t>(p);
      break;
    case DType::U16:
      t.integers[i] = load<uint16_t>(p);
      break;
    case DType::U32:
      t.integers[i] = load<uint32_t>(p);
      break;
    case DType::Bool:
      t.integers[i] = load<uint8_t>(p) != 0;
      break;
    case DType::String:
      t.integers[i] = string_id(string_in_memory(p));
      break;
    default:
      if (is_small_float(t.dtype))
        t.real[i] = small_float_to_double(t.dtype, load<uint8_t>(p));
      else
        t.integers[i] = wrap(t.dtype, load<uint8_t>(p));
  }
}

Tensor tensor_from_bytes(DType dtype, Dims dims, std::span<const std::byte> bytes) {
  Tensor t(dtype, std::move(dims));
  const int64_t width = dtype_bytes(dtype);
  WEFT_CHECK(static_cast<int64_t>(bytes.size()) == t.size() * width, "tensor bytes do not match its shape");
  for (int64_t i = 0; i < t.size(); ++i) load_element(t, i, bytes.data() + i * width);
  return t;
}

std::vector<std::byte> tensor_to_bytes(const Tensor& t) {
  const int64_t width = dtype_bytes(t.dtype);
  std::vector<std::byte> bytes(t.size() * width);
  for (int64_t i = 0; i < t.size(); ++i) {
    std::byte* p = bytes.data() + i * width;
    if (t.dtype == DType::F64) {
      std::memcpy(p, &t.real[i], 8);
    } else if (t.dtype == DType::F32) {
      const float value = static_cast<float>(t.real[i]);
      std::memcpy(p, &value, 4);
    } else if (is_small_float(t.dtype)) {
      // An element that is an infinity stays one.
      *p = static_cast<std::byte>(double_to_small_float(t.dtype, t.real[i], {.saturates = false}));
    } else if (t.is_real()) {
      const uint16_t bits = t.dtype == DType::F16 ? double_to_half(t.real[i]) : double_to_bfloat16(t.real[i]);
      std::memcpy(p, &bits, 2);
    } else if (t.dtype == DType::String) {
      put_in_memory(string_of(t.integers[i]), p);
    } else {
      std::memcpy(p, &t.integers[i], width);  // little endian: the low bytes come first
    }
  }
  return bytes;
}

void Index::next() {
  --left_;
  ++linear_;
  for (int d = static_cast<int>(dims_.size()) - 1; d >= 0; --d) {
    if (++at_[d] < dims_[d]) return;
    at_[d] = 0;
  }
}

int64_t Index::dot(const Dims& strides) const {
  int64_t sum = 0;
  for (size_t d = 0; d < at_.size(); ++d) sum += at_[d] * strides[d];
  return sum;
}

double relative_error(const Tensor& a, const Tensor& b) {
  constexpr double different = std::numeric_limits<double>::infinity();
  if (a.dtype != b.dtype || a.dims != b.dims) return different;
  double largest = 0, difference = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    if (!a.is_real()) {
      if (a.integers[i] != b.integers[i]) return different;
      continue;
    }
    const double x = a.real[i], y = b.real[i];
    if (std::isnan(x) != std::isnan(y)) return different;
    if (std::isnan(x)) continue;
    if (std::isinf(x) || std::isinf(y)) {
      if (x != y) return different;
      continue;
    }
    largest = std::max(largest, std::fabs(y));
    difference = std::max(difference, std::fabs(x - y));
  }
  return largest > 0 ? difference / largest : difference;
}

}  // namespace weftc
