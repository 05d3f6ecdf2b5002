// Formulas in decompositions: a value with arithmetic operators, each of which adds one op.
//
//   const Term x(build, op.op().inputs[0]);
//   return {(x * 2 + 1).cast(DType::I64).value()};
#pragma once
#include "ir/ops/composite.h"

namespace weftc {

class Term {
 public:
  Term(Builder& build, ValueId value) : build_(&build), value_(value) {}

  ValueId value() const { return value_; }
  DType dtype() const { return build_->type(value_).dtype; }
  Dims dims() const { return build_->dims(value_); }
  Shape shape() const { return build_->type(value_).shape; }

  Term cast(DType to) const { return {*build_, build_->cast(value_, to)}; }
  Term reshape(const Dims& dims) const { return {*build_, build_->reshape(value_, dims)}; }
  /// The same for a caller that knows the run-time lengths of the dimensions.
  Term reshape_to(const Shape& shape) const { return {*build_, build_->reshape_to(value_, shape)}; }
  Term transpose(const std::vector<int64_t>& perm) const { return {*build_, build_->transpose(value_, perm)}; }
  Term expand(const Dims& dims) const { return {*build_, build_->op(OpKind::Expand, {value_}, {{"shape", dims}})}; }
  Term reduce(OpKind kind, const std::vector<int64_t>& axes, bool keepdims) const {
    return {*build_, build_->reduce(kind, value_, axes, keepdims)};
  }
  /// Elements [first, last) of one dimension.
  Term slice(int64_t axis, int64_t first, int64_t last) const;
  /// A scalar of this dtype.
  Term scalar(double value) const { return {*build_, build_->scalar(value_, value)}; }

  Term apply(OpKind kind) const { return {*build_, build_->op(kind, {value_})}; }
  Term apply(OpKind kind, Term other) const { return {*build_, build_->op(kind, {value_, other.value_})}; }
  Term apply(OpKind kind, double other) const { return apply(kind, scalar(other)); }
  /// Rounded floats as integers of this type, saturated to its range.
  Term saturate(DType to) const { return {*build_, build_->op(OpKind::Saturate, {value_}, {{"to", dtype_attr(to)}})}; }
  Term floor() const { return apply(OpKind::Floor); }
  /// `yes` if this condition holds, else `no`.
  Term choose(Term yes, Term no) const { return {*build_, build_->op(OpKind::Where, {value_, yes.value_, no.value_})}; }
  /// At least `low`, at most `high`. NaN stays NaN.
  Term clamp(double low, double high) const { return apply(OpKind::Max, low).apply(OpKind::Min, high); }

 private:
  Builder* build_;
  ValueId value_;
};

// Operators whose second operand is a Term or a number of the first one's dtype. Comparisons and && give bool.
#define WEFT_TERM_OPERATOR(sign, kind)                                           \
  inline Term operator sign(Term a, Term b) { return a.apply(OpKind::kind, b); } \
  inline Term operator sign(Term a, double b) { return a.apply(OpKind::kind, b); }
WEFT_TERM_OPERATOR(+, Add)
WEFT_TERM_OPERATOR(-, Sub)
WEFT_TERM_OPERATOR(*, Mul)
WEFT_TERM_OPERATOR(/, Div)
WEFT_TERM_OPERATOR(%, Mod)
WEFT_TERM_OPERATOR(<, Less)
WEFT_TERM_OPERATOR(<=, LessOrEqual)
WEFT_TERM_OPERATOR(>, Greater)
WEFT_TERM_OPERATOR(>=, GreaterOrEqual)
WEFT_TERM_OPERATOR(==, Equal)
#undef WEFT_TERM_OPERATOR
inline Term operator&&(Term a, Term b) { return a.apply(OpKind::And, b); }
inline Term operator-(double a, Term b) { return b.scalar(a) - b; }
inline Term operator-(Term a) { return a.apply(OpKind::Neg); }

/// start, start + step, ... of `count` elements, along dimension `axis` of `ndim`; the other dimensions have extent 1.
Term positions(Builder& build, DType dtype, int64_t count, int axis, int ndim, double step = 1, double start = 0);
/// 0, 1, ... with one element for each index of a dimension.
Term positions(Builder& build, DType dtype, const Extent& count, int axis, int ndim);
/// A constant of any shape.
Term constant(Builder& build, DType dtype, const Dims& dims, const std::vector<double>& values);
/// Elements of `data` along `axis`. A request with an index outside of the range or below 0 is refused.
Term gather(Builder& build, Term data, Term indices, int64_t axis);
/// The same with integers that are inside for every request, so that no program checks them.
Term pick(Builder& build, Term data, Term indices, int64_t axis);
/// The product of matrices, as in MatMul.
Term product(Term a, Term b);

/// The floating type that a decomposition computes in: f64 stays, everything else becomes f32.
inline DType wide(DType dtype) { return dtype == DType::F64 ? dtype : DType::F32; }

}  // namespace weftc
