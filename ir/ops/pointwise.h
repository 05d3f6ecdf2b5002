// Common inference and evaluation of pointwise records. The functions infer_* below differ in accepted and resulting
// dtypes; all broadcast like NumPy (ONNX "Multidirectional Broadcasting").
#pragma once
#include "ir/ops/record.h"
#include "ir/small_float.h"

namespace weftc {

/// Applies `value` or `int_value` of the record to every element: reals if an operand is real, else integers.
void eval_pointwise(EvalContext& context);
/// Casts like weft::cast of the runtime, which emitted code calls.
void eval_cast(EvalContext& context);
/// Converts a rounded number to the nearest integer of the result's type; NaN becomes the smallest one.
void eval_saturate(EvalContext& context);
/// How a Cast, CastLike or RoundedCast rounds to small floats.
SmallFloatRounding small_float_rounding(const Op& op);

bool infer_arithmetic(const OpView& op, std::vector<TensorType>& results);  // dtype of the operands
bool infer_compare(const OpView& op, std::vector<TensorType>& results);     // bool from operands of one dtype
bool infer_logical(const OpView& op, std::vector<TensorType>& results);     // bool from bool
bool infer_bits(const OpView& op, std::vector<TensorType>& results);        // integers only
bool infer_power(const OpView& op, std::vector<TensorType>& results);       // dtype of the base
bool infer_select(const OpView& op, std::vector<TensorType>& results);      // Where
bool infer_cast(const OpView& op, std::vector<TensorType>& results);

// Integer arithmetic without undefined behaviour, like the functions of weft/math.h.
int64_t int_add(int64_t a, int64_t b);
int64_t int_subtract(int64_t a, int64_t b);
int64_t int_multiply(int64_t a, int64_t b);
int64_t int_divide(int64_t a, int64_t b, DType dtype);               // truncates; 0 where b is 0
int64_t int_modulo(int64_t a, int64_t b, bool c_like, DType dtype);  // sign of b, or of a as in C; 0 where b is 0
/// Truncates to the range of an integer type; NaN becomes the smallest one.
int64_t saturated_integer(DType to, double value);
int64_t int_power(int64_t base, int64_t exponent);  // wraps; negative exponents truncate
bool int_less(int64_t a, int64_t b, DType dtype);

// As NumPy: NaN if either is.
double real_max(double a, double b);
double real_min(double a, double b);
double real_modulo(double a, double b);  // the sign of b
double softplus(double x);

}  // namespace weftc
