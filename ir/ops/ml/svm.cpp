// SVMRegressor and SVMClassifier of ai.onnx.ml. A kernel compares each row with each support vector; sums of these
// numbers with coefficients are the scores.
//
//   kernels = exp(-gamma |x - v|^2) or the like    [rows, vectors]
//   scores  = kernels * coefficients + rho         [rows, targets], of a classifier a column for each pair of classes
//
// Each pair of classes votes for one of them, and the label is the class with the most votes.
#include <algorithm>
#include <numeric>

#include "ir/ops/ml/scores.h"

namespace weftc {

namespace {

const ClassAttrs kClasses{};

bool has_kernel_params(const OpView& op) {
  const size_t count = reals_of(op, "kernel_params").size();
  return count == 0 || count == 3 || op.fail("svm-kernel", "kernel_params has {} entries, expected 3", count);
}

/// Gamma, the constant of the polynomial, and its degree.
struct KernelParams {
  double gamma = 0, coef0 = 0, degree = 0;
};
KernelParams params_of(const OpView& op) {
  const std::vector<double> list = reals_of(op, "kernel_params");
  return list.empty() ? KernelParams{} : KernelParams{list[0], list[1], list[2]};
}

/// The kernel of each row and each of `vectors`: [rows, count].
Term kernels(Builder& build, const OpView& op, Term rows, Term vectors) {
  const std::string kernel = text_of(op.op(), "kernel_type");
  const KernelParams params = params_of(op);
  if (kernel == "RBF") {
    const Term row(build, build.op(OpKind::Unsqueeze, {rows.value()}, {{"axes", Dims{1}}}));
    const Term difference = row - vectors;
    return ((difference * difference).reduce(OpKind::ReduceSum, {2}, false) * -params.gamma).apply(OpKind::Exp);
  }
  const Term products = product(rows, vectors.transpose({1, 0}));
  if (kernel == "LINEAR") return products;
  const Term shifted = products * params.gamma + params.coef0;
  return kernel == "SIGMOID" ? shifted.apply(OpKind::Tanh) : shifted.apply(OpKind::Pow, params.degree);
}

// The regressor.

bool infer_svm_regressor(const OpView& op, std::vector<TensorType>& results) {
  if (!has_rows(op) || !has_kernel_params(op)) return false;
  const int64_t features = rows_shape(op)[1].bound, supports = int_of(op.op(), "n_supports");
  const auto vectors = static_cast<int64_t>(reals_of(op, "support_vectors").size()),
             coefficients = static_cast<int64_t>(reals_of(op, "coefficients").size());
  const bool fits =
      supports > 0 ? vectors == supports * features && coefficients == supports : coefficients == features;
  if (!fits || supports < 0 || reals_of(op, "rho").empty())
    return op.fail("svm-lengths", "{} support vectors of {} numbers in all and {} coefficients do not fit {} features",
                   supports, vectors, coefficients, features);
  if (text_of(op.op(), "post_transform") != "NONE")
    return op.fail("svm-post-transform-unsupported", "a post transform of a single target is not supported");
  results = {{DType::F32, {rows_shape(op)[0], {1, {}}}, {}}};
  return true;
}

std::vector<ValueId> decompose_svm_regressor(Builder& build, const OpView& op) {
  const Term rows = rows_of(build, op, DType::F32);
  const int64_t features = rows.dims()[1], supports = int_of(op.op(), "n_supports");
  const std::vector<double> coefficients = reals_of(op, "coefficients");
  const Term column = constant(build, DType::F32, {static_cast<int64_t>(coefficients.size()), 1}, coefficients);
  const Term inputs = supports == 0
                          ? rows
                          : kernels(build, op, rows,
                                    constant(build, DType::F32, {supports, features}, reals_of(op, "support_vectors")));
  const Term score = product(inputs, column) + reals_of(op, "rho")[0];
  if (!int_of(op.op(), "one_class")) return {score.value()};
  return {(score > 0.0).choose(score.scalar(1), score.scalar(-1)).value()};
}

// The classifier.

/// The support vectors of a classifier, class by class.
struct Supports {
  int64_t classes = 0, count = 0;
  std::vector<int64_t> sizes, starts;

  int64_t pairs() const { return classes * (classes - 1) / 2; }
};
Supports supports_of(const OpView& op) {
  Supports s;
  s.sizes = ints_of(op.op(), "vectors_per_class");
  for (int64_t size : s.sizes) s.starts.push_back(s.count), s.count += size;
  s.classes = static_cast<int64_t>(s.sizes.size());
  return s;
}

bool has_svm_lengths(const OpView& op, const Supports& s) {
  const int64_t features = rows_shape(op)[1].bound;
  const auto length = [&](const char* attr) { return static_cast<int64_t>(reals_of(op, attr).size()); };
  if (std::any_of(s.sizes.begin(), s.sizes.end(), [](int64_t size) { return size < 0; }) ||
      length("support_vectors") != s.count * features || length("coefficients") != (s.classes - 1) * s.count ||
      length("rho") < s.pairs())
    return op.fail("svm-lengths",
                   "{} numbers of support vectors, {} coefficients and {} of rho do not fit {} classes "
                   "with {} vectors of {} features",
                   length("support_vectors"), length("coefficients"), length("rho"), s.classes, s.count, features);
  return true;
}

bool infer_svm_classifier(const OpView& op, std::vector<TensorType>& results) {
  if (!has_rows(op) || !has_kernel_params(op)) return false;
  const Supports s = supports_of(op);
  const int64_t classes = class_count(op, kClasses);
  if (classes == 0) return false;
  if (s.count == 0) return op.fail("svm-linear-unsupported", "a classifier without support vectors is not supported");
  if (classes != s.classes || classes < 2)
    return op.fail("svm-classes", "{} classes do not fit vectors_per_class of {} entries", classes, s.classes);
  if (!has_svm_lengths(op, s)) return false;
  if (!reals_of(op, "prob_a").empty())
    return op.fail("svm-probabilities-unsupported", "probabilities of a support vector machine are not supported");
  if (classes == 2 && text_of(op.op(), "post_transform") != "NONE")
    return op.fail("svm-post-transform-unsupported", "a post transform of the score of two classes is not supported");
  results = classifier_results(op, kClasses, classes == 2 ? 2 : s.pairs());
  return are_labels(op, kClasses);
}

/// The coefficients as a matrix [vectors, pairs]: a pair (i, j) reads the vectors of class i in row j - 1 of the list
/// and the vectors of class j in row i.
std::vector<double> pair_matrix(const OpView& op, const Supports& s) {
  const std::vector<double> list = reals_of(op, "coefficients");
  std::vector<double> matrix(static_cast<size_t>(s.count * s.pairs()), 0);
  int64_t pair = 0;
  for (int64_t i = 0; i < s.classes; ++i)
    for (int64_t j = i + 1; j < s.classes; ++j, ++pair) {
      for (int64_t v = s.starts[i]; v < s.starts[i] + s.sizes[i]; ++v)
        matrix[v * s.pairs() + pair] = list[(j - 1) * s.count + v];
      for (int64_t v = s.starts[j]; v < s.starts[j] + s.sizes[j]; ++v)
        matrix[v * s.pairs() + pair] = list[i * s.count + v];
    }
  return matrix;
}

/// The number of pairs that each class has won: [rows, classes].
Term votes(Builder& build, const Supports& s, Term scores) {
  // All pairs count for their second class at first. A won pair adds one to its first class and subtracts it from the
  // second.
  std::vector<double> change(static_cast<size_t>(s.pairs() * s.classes), 0), before(static_cast<size_t>(s.classes));
  int64_t pair = 0;
  for (int64_t i = 0; i < s.classes; ++i)
    for (int64_t j = i + 1; j < s.classes; ++j, ++pair) {
      change[pair * s.classes + i] = 1, change[pair * s.classes + j] = -1;
      ++before[j];
    }
  const Term won = (scores > 0.0).cast(DType::F32);
  return product(won, constant(build, DType::F32, {s.pairs(), s.classes}, change)) +
         constant(build, DType::F32, {s.classes}, before);
}

std::vector<ValueId> decompose_svm_classifier(Builder& build, const OpView& op) {
  const Supports s = supports_of(op);
  const Term rows = rows_of(build, op, DType::F32);
  const Term vectors = constant(build, DType::F32, {s.count, rows.dims()[1]}, reals_of(op, "support_vectors"));
  std::vector<double> rho = reals_of(op, "rho");
  rho.resize(static_cast<size_t>(s.pairs()));
  const Term weights = constant(build, DType::F32, {s.count, s.pairs()}, pair_matrix(op, s));
  const Term scores =
      product(kernels(build, op, rows, vectors), weights) + constant(build, DType::F32, {s.pairs()}, rho);
  const Term label = labels_of(build, op, kClasses, best_class(build, votes(build, s, scores)));
  if (s.classes == 2)
    return {label.value(), build.op(OpKind::Concat, {(scores * -1).value(), scores.value()}, {{"axis", int64_t{1}}})};
  return {label.value(), post_transform(scores, text_of(op.op(), "post_transform")).value()};
}

}  // namespace

const OpDef kSVMRegressor{.kind = OpKind::SVMRegressor,
                          .name = "SVMRegressor",
                          .onnx = {"SVMRegressor", 1, "ai.onnx.ml"},
                          .attrs = {{"coefficients", AttrType::Reals},
                                    {"kernel_params", AttrType::Reals},
                                    choice("kernel_type", "LINEAR", "LINEAR POLY RBF SIGMOID"),
                                    {"n_supports", AttrType::Int, 0},
                                    {"one_class", AttrType::Int, 0},
                                    choice("post_transform", "NONE", "NONE SOFTMAX LOGISTIC SOFTMAX_ZERO PROBIT"),
                                    {"rho", AttrType::Reals},
                                    {"support_vectors", AttrType::Reals}},
                          .infer = infer_svm_regressor,
                          .decompose = decompose_svm_regressor};

const OpDef kSVMClassifier{.kind = OpKind::SVMClassifier,
                           .name = "SVMClassifier",
                           .onnx = {"SVMClassifier", 1, "ai.onnx.ml"},
                           .attrs = {{"classlabels_ints", AttrType::Ints},
                                     {"classlabels_strings", AttrType::Texts},
                                     {"coefficients", AttrType::Reals},
                                     {"kernel_params", AttrType::Reals},
                                     choice("kernel_type", "LINEAR", "LINEAR POLY RBF SIGMOID"),
                                     choice("post_transform", "NONE", "NONE SOFTMAX LOGISTIC SOFTMAX_ZERO PROBIT"),
                                     {"prob_a", AttrType::Reals},
                                     {"prob_b", AttrType::Reals},
                                     {"rho", AttrType::Reals},
                                     {"support_vectors", AttrType::Reals},
                                     {"vectors_per_class", AttrType::Ints}},
                           .outputs = {1, 2},
                           .infer = infer_svm_classifier,
                           .decompose = decompose_svm_classifier,
                           .takes_strings = true};

}  // namespace weftc
