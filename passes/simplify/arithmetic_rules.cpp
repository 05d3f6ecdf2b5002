// Rules for arithmetic that changes nothing.
//
// The sign of a zero is not kept: -0 + 0 is +0, but `x + 0` becomes x, as in ONNX Runtime. NaN and infinities are kept:
// nothing here turns x * 0 into 0 or x - x into 0.
#include <algorithm>

#include "ir/ops/record.h"
#include "passes/simplify/rules.h"

namespace weftc {

namespace {

/// The constant `name` holds nothing but `value`, and the op's result has the type of its operand `x`: a constant may
/// also be there to broadcast x.
bool leaves_type_and_is(const Match& match, std::string_view name, double value) {
  if (match.root_type() != match.type("x") || match.begins_otherwise(match[name], value)) return false;
  const Tensor tensor = match.tensor(match[name]);
  for (int64_t i = 0; i < tensor.size(); ++i)
    if (tensor.at(i) != value) return false;
  return true;
}

bool adds_zero(const Match& match) { return leaves_type_and_is(match, "c", 0); }
bool scales_by_one(const Match& match) { return leaves_type_and_is(match, "c", 1); }
ValueId put_x(Rewriter&, const Match& match) { return match["x"]; }

/// Bits of the integers that a type holds exactly: all values of a narrower integer type are among them. A float of at
/// most 8 bits is not asked for its own.
int integer_bits(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return 1;
    case DType::F64:
      return 53;
    case DType::F32:
      return 24;
    case DType::F16:
      return 11;
    case DType::BF16:
      return 8;
    case DType::I8:
    case DType::I16:
    case DType::I32:
    case DType::I64:
      return static_cast<int>(8 * dtype_bytes(dtype)) - 1;
    case DType::U8:
    case DType::U16:
    case DType::U32:
    case DType::U64:
      return static_cast<int>(8 * dtype_bytes(dtype));
    case DType::I4:
    case DType::I2:
      return onnx_bits(dtype) - 1;
    case DType::U4:
    case DType::U2:
      return onnx_bits(dtype);
    default:
      return 0;
  }
}

/// True if every value of `from` is one of `to`.
bool holds_all(DType to, DType from) {
  if (from == to) return true;
  if (from == DType::String || to == DType::String) return false;
  if (is_small_float(from)) return to == DType::F32 || to == DType::F64;
  if (is_float(from)) return is_float(to) && dtype_bytes(to) > dtype_bytes(from);
  if (to == DType::Bool) return false;
  const bool keeps_sign = !is_signed_int(from) || is_signed_int(to) || is_float(to);
  return keeps_sign && integer_bits(to) >= integer_bits(from);
}

/// Through floats, an integer that the last type does not hold is converted otherwise than it wraps.
bool inner_cast_loses_nothing(const Match& match) {
  const DType from = match.type("x").dtype, between = match.type("between").dtype, to = match.root_type().dtype;
  const bool same_family = is_float(from) == is_float(between);
  return holds_all(between, from) && (same_family || is_float(to) || holds_all(to, from));
}

ValueId put_cast(Rewriter& write, const Match& match) {
  return write.op(OpKind::Cast, {match["x"]}, match.root().attrs);
}

}  // namespace

std::span<const Rule> arithmetic_rules() {
  static const std::vector<Rule> rules{
      // Identity(x)  ->  x
      {"identity", op(OpKind::Identity, {any("x")}), nullptr, put_x},
      // x + 0  ->  x
      {"add-zero", op(OpKind::Add, {any("x"), constant("c")}), adds_zero, put_x},
      // x - 0  ->  x
      {"subtract-zero", op(OpKind::Sub, {any("x"), constant("c")}), adds_zero, put_x},
      // x * 1  ->  x
      {"multiply-by-one", op(OpKind::Mul, {any("x"), constant("c")}), scales_by_one, put_x},
      // x / 1  ->  x
      {"divide-by-one", op(OpKind::Div, {any("x"), constant("c")}), scales_by_one, put_x},
      // -(-x)  ->  x
      {"double-negation", op(OpKind::Neg, {op(OpKind::Neg, {any("x")})}), nullptr, put_x},
      // Relu(Relu(x))  ->  Relu(x)
      {"double-relu", op(OpKind::Relu, {op(OpKind::Relu, {any("")}).as("x")}), nullptr, put_x},
      // Cast<T>(x)  ->  x  where x has type T
      {"cast-to-own-type", op(OpKind::Cast, {any("x")}),
       [](const Match& match) { return match.root_type() == match.type("x"); }, put_x},
      // Cast<T>(Cast<U>(x))  ->  Cast<T>(x)  where U holds all values of x's type
      {"cast-of-wider-cast", op(OpKind::Cast, {op(OpKind::Cast, {any("x")}).as("between")}), inner_cast_loses_nothing,
       put_cast},
  };
  return rules;
}

}  // namespace weftc
