// LinearRegressor and LinearClassifier of ai.onnx.ml: a product with a matrix of coefficients, intercepts, and a
// transform of the scores.
#include "ir/ops/ml/scores.h"

namespace weftc {

namespace {

const ClassAttrs kClasses{};

/// Coefficients [targets, features] and, if there are any, an intercept for each target; else reports.
bool fits_targets(const OpView& op, int64_t targets) {
  const auto coefficients = static_cast<int64_t>(reals_of(op, "coefficients").size()),
             intercepts = static_cast<int64_t>(reals_of(op, "intercepts").size());
  const int64_t features = rows_shape(op)[1].bound;
  if (targets > 0 && coefficients == targets * features && (intercepts == 0 || intercepts == targets)) return true;
  return op.fail("linear-coefficients", "{} coefficients and {} intercepts do not fit {} targets of {} features",
                 coefficients, intercepts, targets, features);
}

/// x times the transposed coefficients, plus the intercepts: [rows, targets].
Term linear_scores(Builder& build, const OpView& op, int64_t targets) {
  const Term x = rows_of(build, op, DType::F32);
  const std::vector<double> coefficients = reals_of(op, "coefficients"), intercepts = reals_of(op, "intercepts");
  const int64_t features = x.dims()[1];
  const Term scores = product(x, constant(build, DType::F32, {targets, features}, coefficients).transpose({1, 0}));
  return intercepts.empty() ? scores : scores + constant(build, DType::F32, {targets}, intercepts);
}

bool infer_linear_regressor(const OpView& op, std::vector<TensorType>& results) {
  const int64_t targets = int_of(op.op(), "targets");
  if (!has_rows(op) || !fits_targets(op, targets)) return false;
  const std::string& transform = text_of(op.op(), "post_transform");
  if (targets == 1 && transform != "NONE" && transform != "PROBIT")
    return op.fail("linear-post-transform-unsupported", "a post transform of a single target is not supported");
  results = {{DType::F32, {rows_shape(op)[0], {targets, {}}}, {}}};
  return true;
}

std::vector<ValueId> decompose_linear_regressor(Builder& build, const OpView& op) {
  const Term scores = linear_scores(build, op, int_of(op.op(), "targets"));
  return {post_transform(scores, text_of(op.op(), "post_transform")).value()};
}

/// The number of rows of coefficients; one score may be for two classes.
int64_t score_count(const OpView& op) {
  const int64_t features = rows_shape(op)[1].bound;
  return features > 0 ? static_cast<int64_t>(reals_of(op, "coefficients").size()) / features : 0;
}

bool infer_linear_classifier(const OpView& op, std::vector<TensorType>& results) {
  if (!has_rows(op)) return false;
  const int64_t classes = class_count(op, kClasses), scores = score_count(op);
  if (classes == 0 || !fits_targets(op, scores)) return false;
  if (scores != classes && scores != 1)
    return op.fail("linear-classes", "{} rows of coefficients do not fit {} classes", scores, classes);
  const std::string& transform = text_of(op.op(), "post_transform");
  if (scores == 1 && classes <= 2 && transform != "NONE" && transform != "LOGISTIC")
    return op.fail("linear-classifier-unsupported", "{} of one score is not supported", transform);
  if (scores == 1 && classes == 1 && op.op().has(kClasses.strings))
    return op.fail("linear-classifier-unsupported", "one class whose label is a string is not supported");
  results = classifier_results(op, kClasses, scores == 1 && classes == 2 ? 2 : scores);
  return are_labels(op, kClasses);
}

/// One score: the second class if it is positive.
std::vector<ValueId> one_score(Builder& build, const OpView& op, Term score, int64_t classes) {
  const Term position = (score > 0.0).cast(DType::I64);
  const ValueId flat = build.op(OpKind::Squeeze, {position.value()}, {{"axes", Dims{1}}});
  const bool is_logistic = text_of(op.op(), "post_transform") == "LOGISTIC";
  const Term second = is_logistic ? logistic(score) : score;
  if (classes != 2) return {flat, second.value()};
  const Term first = is_logistic ? logistic(score * -1) : 1 - score;  // as ONNX Runtime has it
  const ValueId both = build.op(OpKind::Concat, {first.value(), second.value()}, {{"axis", int64_t{1}}});
  return {labels_of(build, op, kClasses, {build, flat}).value(), both};
}

std::vector<ValueId> decompose_linear_classifier(Builder& build, const OpView& op) {
  const int64_t count = score_count(op), classes = class_count(op, kClasses);
  const Term scores = linear_scores(build, op, count);
  if (count == 1) return one_score(build, op, scores, classes);
  return {labels_of(build, op, kClasses, best_class(build, scores)).value(),
          post_transform(scores, text_of(op.op(), "post_transform")).value()};
}

}  // namespace

const OpDef kLinearRegressor{.kind = OpKind::LinearRegressor,
                             .name = "LinearRegressor",
                             .onnx = {"LinearRegressor", 1, "ai.onnx.ml"},
                             .attrs = {{"coefficients", AttrType::Reals},
                                       {"intercepts", AttrType::Reals},
                                       choice("post_transform", "NONE", "NONE SOFTMAX LOGISTIC SOFTMAX_ZERO PROBIT"),
                                       {"targets", AttrType::Int, 1}},
                             .infer = infer_linear_regressor,
                             .decompose = decompose_linear_regressor};

const OpDef kLinearClassifier{.kind = OpKind::LinearClassifier,
                              .name = "LinearClassifier",
                              .onnx = {"LinearClassifier", 1, "ai.onnx.ml"},
                              .attrs = {{"classlabels_ints", AttrType::Ints},
                                        {"classlabels_strings", AttrType::Texts},
                                        {"coefficients", AttrType::Reals, {}, true},
                                        {"intercepts", AttrType::Reals},
                                        {"multi_class", AttrType::Int, 0},
                                        choice("post_transform", "NONE", "NONE SOFTMAX LOGISTIC SOFTMAX_ZERO PROBIT")},
                              .outputs = {1, 2},
                              .infer = infer_linear_classifier,
                              .decompose = decompose_linear_classifier,
                              .takes_strings = true};

}  // namespace weftc
