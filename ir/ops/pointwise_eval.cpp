// Inference and reference evaluation of pointwise ops, and the integer arithmetic that reference and kernels share. The
// rows (pointwise.cpp) have the differences between ops; this file has the common code.
#include <algorithm>
#include <cmath>

#include "ir/base/text.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/strings/casts.h"

namespace weftc {

/// The broadcast shape with the given dtype, for operands whose dtypes the caller has checked.
static bool infer_mixed(const OpView& op, DType result, std::vector<TensorType>& results) {
  std::vector<Shape> shapes;
  for (int i = 0; i < op.inputs(); ++i) shapes.push_back(op.type(i).shape);
  const std::optional<Shape> shape = broadcast(shapes);
  if (!shape) {
    std::vector<std::string> texts;
    for (const Shape& s : shapes) texts.push_back(shape_text(s));
    return op.fail("broadcast-dims", "shapes {} cannot be broadcast together", join(texts, " and "));
  }
  results = {{result, *shape, {}}};
  return true;
}

bool infer_broadcast(const OpView& op, std::vector<TensorType>& results) {
  return same_dtypes(op) && infer_mixed(op, op.type(0).dtype, results);
}

/// A row without a function for integers takes floats only.
bool infer_arithmetic(const OpView& op, std::vector<TensorType>& results) {
  if (!op_def(op.op()).int_value && !is_real_operand(op, 0)) return false;
  return infer_broadcast(op, results);
}

bool infer_compare(const OpView& op, std::vector<TensorType>& results) {
  return same_dtypes(op) && infer_mixed(op, DType::Bool, results);
}

bool infer_logical(const OpView& op, std::vector<TensorType>& results) {
  for (int i = 0; i < op.inputs(); ++i)
    if (op.type(i).dtype != DType::Bool)
      return op.fail("operand-not-bool", "operand {} has element type {}, bool is needed", i,
                     dtype_name(op.type(i).dtype));
  return infer_mixed(op, DType::Bool, results);
}

bool infer_bits(const OpView& op, std::vector<TensorType>& results) {
  if (!is_integer(op.type(0).dtype))
    return op.fail("operand-not-integer", "operand 0 has element type {}, an integer type is needed",
                   dtype_name(op.type(0).dtype));
  return infer_broadcast(op, results);
}

bool infer_power(const OpView& op, std::vector<TensorType>& results) {
  return infer_mixed(op, op.type(0).dtype, results);
}

bool infer_select(const OpView& op, std::vector<TensorType>& results) {
  if (op.type(0).dtype != DType::Bool)
    return op.fail("condition-not-bool", "the condition has element type {}, bool is needed",
                   dtype_name(op.type(0).dtype));
  return same_dtypes(op, 1) && infer_mixed(op, op.type(1).dtype, results);
}

bool infer_cast(const OpView& op, std::vector<TensorType>& results) {
  results = {{dtype_of_attr(int_of(op.op(), "to")), op.type(0).shape, {}}};
  return true;
}

namespace {
/// The operands, each with strides from an index of the result to its element (0 if it is broadcast).
struct Operands {
  explicit Operands(const EvalContext& context) {
    for (const Tensor* tensor : context.inputs) {
      tensors.push_back(tensor);
      strides.push_back(broadcast_strides(tensor->dims, static_cast<int>(context.result_dims[0].size())));
    }
  }
  std::vector<const Tensor*> tensors;
  std::vector<Dims> strides;
};
}  // namespace

/// An op of any number of operands (Max, Min) is a chain of pairs; any other takes all of them at once.
template <class T, class Pair>
static T value_of(std::vector<T>& operands, bool is_chain, Pair value) {
  if (!is_chain) return value(operands.data());
  for (size_t i = 1; i < operands.size(); ++i) {
    const T pair[] = {operands[0], operands[i]};
    operands[0] = value(pair);
  }
  return operands[0];
}

void eval_pointwise(EvalContext& context) {
  const OpDef& def = op_def(context.op);
  const Operands operands(context);
  const size_t count = operands.tensors.size();
  bool real = false;
  for (const Tensor* tensor : operands.tensors) real = real || tensor->is_real();
  Tensor result(context.result_dtypes[0], context.result_dims[0]);
  std::vector<double> reals(count);
  std::vector<int64_t> ints(count);
  const bool is_chain = def.inputs.max < 0;
  const auto real_value = [&](const double* x) { return def.value(x, context.op); };
  const auto int_value = [&](const int64_t* x) { return def.int_value(x, context.op, context.in(0).dtype); };
  for (Index at(result.dims); at.more(); at.next()) {
    for (size_t i = 0; i < count; ++i) {
      const int64_t from = at.dot(operands.strides[i]);
      if (real || !def.int_value)
        reals[i] = operands.tensors[i]->at(from);
      else
        ints[i] = operands.tensors[i]->integers[from];
    }
    if (!real && def.int_value)
      result.put_int(at.linear(), value_of(ints, is_chain, int_value));
    else if (const double value = value_of(reals, is_chain, real_value); is_integer(result.dtype))
      result.put_int(at.linear(), saturated_integer(result.dtype, value));
    else
      result.put(at.linear(), value);
  }
  context.results[0] = std::move(result);
}

/// An element as a real; u64 is kept in a signed integer.
static double unsigned_value(const Tensor& tensor, int64_t i) {
  return tensor.dtype == DType::U64 ? static_cast<double>(static_cast<uint64_t>(tensor.integers[i])) : tensor.at(i);
}

/// Truncates towards zero, like weft::cast. Numbers that do not fit into 64 bits, and NaN, become the smallest 64-bit
/// integer. A narrower type takes the low bits.
static int64_t truncated(DType to, double value) {
  if (to == DType::U64 && value >= 0x1p63)
    return value >= 0x1p64 ? -1 : static_cast<int64_t>(static_cast<uint64_t>(value));
  return value >= -0x1p63 && value < 0x1p63 ? static_cast<int64_t>(value) : INT64_MIN;
}

SmallFloatRounding small_float_rounding(const Op& op) {
  if (const AttrValue* direction = op.find("direction"))
    return {int_of(op, "saturate") != 0, static_cast<PowerRounding>(std::get<int64_t>(*direction))};
  const std::string& mode = text_of(op, "round_mode");
  const PowerRounding power = mode == "down"      ? PowerRounding::Down
                              : mode == "nearest" ? PowerRounding::Nearest
                                                  : PowerRounding::Up;
  return {int_of(op, "saturate") != 0, power};
}

int64_t saturated_integer(DType to, double value) {
  const int bits = onnx_bits(to);
  const double low = is_signed_int(to) ? -std::ldexp(1, bits - 1) : 0;
  if (!(value > low)) return static_cast<int64_t>(low);
  if (value >= low + std::ldexp(1, bits)) return is_signed_int(to) ? INT64_MAX >> (64 - bits) : wrap(to, -1);
  return to == DType::U64 ? static_cast<int64_t>(static_cast<uint64_t>(value)) : static_cast<int64_t>(value);
}

void eval_saturate(EvalContext& context) {
  Tensor result(context.result_dtypes[0], context.result_dims[0]);
  for (int64_t i = 0; i < result.size(); ++i) result.put_int(i, saturated_integer(result.dtype, context.in(0).real[i]));
  context.results[0] = std::move(result);
}

void eval_cast(EvalContext& context) {
  const Tensor& from = context.in(0);
  if ((from.dtype == DType::String) != (context.result_dtypes[0] == DType::String)) return eval_string_cast(context);
  Tensor result(context.result_dtypes[0], context.result_dims[0]);
  const SmallFloatRounding rounding = small_float_rounding(context.op);
  for (int64_t i = 0; i < result.size(); ++i) {
    if (is_small_float(result.dtype) && from.dtype != result.dtype)
      result.real[i] =
          small_float_to_double(result.dtype, double_to_small_float(result.dtype, unsigned_value(from, i), rounding));
    else if (result.is_real())
      result.real[i] = from.dtype == result.dtype ? from.real[i] : round_to(result.dtype, unsigned_value(from, i));
    else if (!from.is_real())
      result.put_int(i, from.integers[i]);
    else if (result.dtype == DType::Bool)
      result.integers[i] = from.real[i] != 0;
    else
      result.put_int(i, truncated(result.dtype, from.real[i]));
  }
  context.results[0] = std::move(result);
}

int64_t int_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t int_subtract(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t int_multiply(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

int64_t int_divide(int64_t a, int64_t b, DType dtype) {
  if (b == 0) return 0;
  if (dtype == DType::U64) return static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
  return b == -1 ? int_subtract(0, a) : a / b;
}

/// The divisor -1 is handled separately: INT64_MIN % -1 traps on some machines.
int64_t int_modulo(int64_t a, int64_t b, bool c_like, DType dtype) {
  if (b == 0 || b == -1) return dtype == DType::U64 && b == -1 ? (a == -1 ? 0 : a) : 0;
  if (dtype == DType::U64) return static_cast<int64_t>(static_cast<uint64_t>(a) % static_cast<uint64_t>(b));
  const int64_t remainder = a % b;
  return !c_like && remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

int64_t int_power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  int64_t result = 1;
  for (; exponent; exponent >>= 1, base = int_multiply(base, base))
    if (exponent & 1) result = int_multiply(result, base);
  return result;
}

bool int_less(int64_t a, int64_t b, DType dtype) {
  return dtype == DType::U64 ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}

double real_modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(rest, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

double real_max(double a, double b) { return std::isnan(a) ? a : std::isnan(b) || b > a ? b : a; }
double real_min(double a, double b) { return std::isnan(a) ? a : std::isnan(b) || b < a ? b : a; }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

}  // namespace weftc
