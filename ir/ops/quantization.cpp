// The arithmetic of quantized numbers as simpler ops.
#include "ir/ops/quantization.h"

namespace weftc {

DType quantized_dtype(const OpView& op, int zero, DType otherwise) {
  return op.has(zero) ? op.type(zero).dtype : otherwise;
}

bool hold_one_number(const OpView& op, std::initializer_list<int> operands) {
  for (int i : operands)
    if (op.has(i) && (!is_static(op.type(i).shape) || op.type(i).count() != 1))
      return op.fail("quantized-scalar", "operand {} has shape {}, where one number is needed", i,
                     dims_text(op.dims(i)));
  return true;
}

bool is_byte_operand(const OpView& op, int input) {
  const DType dtype = op.type(input).dtype;
  if (dtype == DType::U8 || dtype == DType::I8) return true;
  return op.fail("quantized-dtype", "operand {} has element type {}, where u8 or i8 is needed", input,
                 dtype_name(dtype));
}

bool has_byte_zero(const OpView& op, int zero) { return !op.has(zero) || is_byte_operand(op, zero); }

bool fills_byte_kernels(const Dims& filters, int64_t group) {
  return filters.size() > 3 && (group == 1 || (filters[1] % 4 == 0 && filters[0] / group % 16 == 0));
}

Term scalar_operand(Builder& build, const OpView& op, int input) {
  return Term(build, op.op().inputs[input]).reshape({}).cast(DType::F32);
}

Term centred(Builder& build, ValueId integers, ValueId zero) {
  const Term x = Term(build, integers).cast(DType::I32);
  return zero ? x - Term(build, zero).cast(DType::I32) : x;
}

Term dequantized(Builder& build, const OpView& op, QuantizedOperand operand) {
  const std::vector<ValueId>& in = op.op().inputs;
  const ValueId zero = op.has(operand.zero) ? build.reshape(in[operand.zero], {}) : ValueId{};
  return centred(build, in[operand.integers], zero).cast(DType::F32) * scalar_operand(build, op, operand.scale);
}

Term saturated(Term quotient, std::optional<Term> zero, DType to) {
  const Term rounded = quotient.apply(OpKind::Round);
  return (zero ? rounded + *zero : rounded).saturate(to);
}

Term quantized(Builder& build, const OpView& op, Term real, int scale, int zero, DType to) {
  std::optional<Term> shift;
  if (op.has(zero)) shift = scalar_operand(build, op, zero);
  return saturated(real / scalar_operand(build, op, scale), shift, to);
}

}  // namespace weftc
