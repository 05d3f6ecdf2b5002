// Post transforms follow ONNX's text. If it is silent (scores of zero, one score for two classes), they follow ONNX
// Runtime.
#include "ir/ops/ml/scores.h"

#include <numbers>

#include "ir/base/contains.h"
#include "ir/ops/strings/strings.h"

namespace weftc {

bool has_numbers(const OpView& op) {
  const DType dtype = op.type(0).dtype;
  return contains(std::initializer_list<DType>{DType::F32, DType::F64, DType::I32, DType::I64}, dtype) ||
         op.fail("rows-dtype", "rows of element type {}, expected f32, f64, i32 or i64", dtype_name(dtype));
}

std::vector<double> reals_of(const OpView& op, const char* attr) {
  return op.op().has(attr) ? op.op().reals(attr) : std::vector<double>{};
}

bool has_rows(const OpView& op) { return has_numbers(op) && has_row_shape(op); }

bool has_row_shape(const OpView& op) { return has_ndim(op, 0, 1, 2) && has_fixed_features(op, 0); }

bool has_fixed_features(const OpView& op, int input) {
  return !op.type(input).shape.back().is_run_time() ||
         op.fail("rows-features-unsupported", "the number of features is known at run time only; pin it with --dim");
}

Shape rows_shape(const OpView& op) {
  const Shape& shape = op.type(0).shape;
  return shape.size() == 1 ? Shape{{1, {}}, shape[0]} : shape;
}

Term rows_of(Builder& build, const OpView& op, DType dtype) {
  const Term x(build, op.op().inputs[0]);
  return (op.type(0).ndim() == 1 ? x.reshape({1, op.dims(0)[0]}) : x).cast(dtype);
}

Term logistic(Term x) { return x.apply(OpKind::Sigmoid); }

/// The softmax of the scores that are not zero; zero scores stay about zero.
static Term softmax_zero(Term scores) {
  constexpr double kZero = 1e-7;
  const Term best = scores.reduce(OpKind::ReduceMax, {1}, true);
  const Term counts = scores.apply(OpKind::Abs) > kZero;
  const Term exponentials = (scores - best).apply(OpKind::Exp);
  const Term all = counts.choose(exponentials, scores.scalar(0)).reduce(OpKind::ReduceSum, {1}, true);
  return counts.choose(exponentials, scores * (best * -1).apply(OpKind::Exp)) / all;
}

/// The quantile of the normal distribution, by Winitzki's approximation of the inverse error function with the numbers
/// of ONNX Runtime.
static Term probit(Term probability) {
  constexpr double kA = 0.147, kPi = 3.14159;
  const Term x = probability * 2 - 1;
  const Term log = ((1 - x) * (x + 1)).apply(OpKind::Log);
  const Term v = log * 0.5 + 2 / (kPi * kA);
  const Term size = ((v * v - log * (1 / kA)).apply(OpKind::Sqrt) - v).apply(OpKind::Sqrt);
  return (x < 0.0).choose(size * -1, size) * std::numbers::sqrt2;
}

Term post_transform(Term scores, const std::string& name) {
  if (name == "LOGISTIC") return logistic(scores);
  if (name == "SOFTMAX") {
    const Term exponentials = (scores - scores.reduce(OpKind::ReduceMax, {1}, true)).apply(OpKind::Exp);
    return exponentials / exponentials.reduce(OpKind::ReduceSum, {1}, true);
  }
  if (name == "SOFTMAX_ZERO") return softmax_zero(scores);
  return name == "PROBIT" ? probit(scores) : scores;
}

static bool lists_strings(const OpView& op, const ClassAttrs& attrs) {
  return op.op().has(attrs.strings) && !op.op().texts(attrs.strings).empty();
}

int64_t class_count(const OpView& op, const ClassAttrs& attrs) {
  const size_t integers = ints_of(op.op(), attrs.integers).size();
  const size_t strings = lists_strings(op, attrs) ? op.op().texts(attrs.strings).size() : 0;
  if ((integers > 0) == (strings > 0))
    op.fail("class-labels", "the classes have to be listed in either {} or {}", attrs.integers, attrs.strings);
  return integers > 0 && strings > 0 ? 0 : static_cast<int64_t>(integers + strings);
}

bool are_labels(const OpView& op, const ClassAttrs& attrs) {
  return !lists_strings(op, attrs) || are_elements(op, op.op().texts(attrs.strings), "a label");
}

std::vector<TensorType> classifier_results(const OpView& op, const ClassAttrs& attrs, int64_t scores) {
  const Extent rows = rows_shape(op)[0];
  const DType label = lists_strings(op, attrs) ? DType::String : DType::I64;
  return {{label, {rows}, {}}, {DType::F32, {rows, {scores, {}}}, {}}};
}

Term labels_of(Builder& build, const OpView& op, const ClassAttrs& attrs, Term positions) {
  const bool has_strings = lists_strings(op, attrs);
  const Tensor labels =
      has_strings ? string_list(op.op().texts(attrs.strings)) : Tensor::ints(ints_of(op.op(), attrs.integers));
  if (!has_strings && labels.integers == range_of(0, labels.size())) return positions;
  return pick(build, {build, build.constant(labels)}, positions, 0);
}

Term best_class(Builder& build, Term scores) {
  return {build, build.op(OpKind::ArgMax, {scores.value()}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}})};
}

}  // namespace weftc
