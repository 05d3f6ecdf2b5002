// Common code of the records of quantized ops. Real numbers are represented by integers with a scale and a zero point:
//
//   real = (integer - zero) * scale        integer = saturate(round(real / scale) + zero), half to even
#pragma once
#include "ir/ops/formula.h"

namespace weftc {

/// Three operands in a row: integers, their scale and their zero point, which may be absent.
struct QuantizedOperand {
  int integers, scale, zero;
};

/// True if the zero point is absent, or u8 or i8; else reports.
bool has_byte_zero(const OpView& op, int zero);
/// The zero point's type if it is present, else `otherwise`: the type that an op quantizes to.
DType quantized_dtype(const OpView& op, int zero, DType otherwise);
/// True if every present operand of `operands` holds one number; else reports. Shapes [] and [1] both occur.
bool hold_one_number(const OpView& op, std::initializer_list<int> operands);
/// True if the operand is u8 or i8; else reports.
bool is_byte_operand(const OpView& op, int input);

/// Whether a convolution with filters of these dims can sum bytes four at a time: the channels of a group, and its
/// filters, fill the units that kernels read at once. False for one spatial dimension: it becomes two with 32-bit
/// integers.
bool fills_byte_kernels(const Dims& filters, int64_t group);

/// An operand of one element as a scalar of f32.
Term scalar_operand(Builder& build, const OpView& op, int input);
/// The integers as real numbers, f32; scale and zero point are scalars.
Term dequantized(Builder& build, const OpView& op, QuantizedOperand operand);
/// The integers minus their zero point (absent: 0), which broadcasts against them, as i32.
Term centred(Builder& build, ValueId integers, ValueId zero);
/// Rounds numbers of f32 that were divided by their scale, adds the zero point (none: 0) and saturates.
Term saturated(Term quotient, std::optional<Term> zero, DType to);
/// Real numbers as integers of type `to`, by operands `scale` and `zero`, each of which holds one number.
Term quantized(Builder& build, const OpView& op, Term real, int scale, int zero, DType to);

}  // namespace weftc
