// Preprocessing of features in ai.onnx.ml: Scaler, Normalizer, Binarizer, Imputer, OneHotEncoder, FeatureVectorizer,
// ArrayFeatureExtractor. All become pointwise ops, reductions and views.
#include <cmath>

#include "ir/ops/ml/scores.h"
#include "ir/ops/strings/strings.h"

namespace weftc {

namespace {

/// The same shape in f32.
bool infer_f32(const OpView& op, std::vector<TensorType>& results) {
  if (!has_numbers(op)) return false;
  results = {{DType::F32, op.type(0).shape, {}}};
  return true;
}

/// f64 stays and is rounded at the end; all else becomes f32 first.
Term real_operand(Builder& build, const OpView& op) {
  return Term(build, op.op().inputs[0]).cast(wide(op.type(0).dtype));
}

/// A list of one number, or of one for each feature; else reports.
bool fits_features(const OpView& op, const char* attr, size_t count) {
  if (!has_ndim(op, 0, 1)) return false;
  const int64_t features = op.dims(0).back();
  return count == 1 || static_cast<int64_t>(count) == features ||
         op.fail("features-list", "{} has {} entries, expected 1 or {}", attr, count, features);
}

Term feature_constant(Builder& build, DType dtype, const std::vector<double>& values) {
  return constant(build, dtype, {static_cast<int64_t>(values.size())}, values);
}

// Scaler: (x - offset) * scale.

bool infer_scaler(const OpView& op, std::vector<TensorType>& results) {
  return has_numbers(op) && fits_features(op, "offset", reals_of(op, "offset").size()) &&
         fits_features(op, "scale", reals_of(op, "scale").size()) && infer_f32(op, results);
}

std::vector<ValueId> decompose_scaler(Builder& build, const OpView& op) {
  const Term x = real_operand(build, op);
  const auto of = [&](const char* attr) { return feature_constant(build, x.dtype(), reals_of(op, attr)); };
  return {((x - of("offset")) * of("scale")).cast(DType::F32).value()};
}

// Normalizer: a row divided by its greatest element, the sum of its absolute values, or its length. A zero divisor
// leaves the row.

bool infer_normalizer(const OpView& op, std::vector<TensorType>& results) {
  return has_rows(op) && infer_f32(op, results);
}

std::vector<ValueId> decompose_normalizer(Builder& build, const OpView& op) {
  const std::string norm = text_of(op.op(), "norm");
  const Term x = real_operand(build, op);
  const OpKind kind = norm == "MAX" ? OpKind::ReduceMax : norm == "L1" ? OpKind::ReduceL1 : OpKind::ReduceL2;
  const Term divisor = x.reduce(kind, {op.type(0).ndim() - 1}, true);
  return {(x / (divisor == 0.0).choose(divisor.scalar(1), divisor)).cast(DType::F32).value()};
}

// Binarizer: 1 where an element is above the threshold.

bool infer_binarizer(const OpView& op, std::vector<TensorType>& results) {
  return has_numbers(op) && infer_same(op, results);
}

std::vector<ValueId> decompose_binarizer(Builder& build, const OpView& op) {
  const Term x(build, op.op().inputs[0]);
  const double threshold = real_of(op.op(), "threshold");
  // An integer is greater than a number iff it is greater than the number's floor.
  return {(x > (is_float(x.dtype()) ? threshold : std::floor(threshold))).cast(x.dtype()).value()};
}

// Imputer: missing elements are replaced by a number for the feature.

Tensor integers(DType dtype, const std::vector<int64_t>& values) {
  Tensor tensor(dtype, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) tensor.put_int(static_cast<int64_t>(i), values[i]);
  return tensor;
}

const char* imputed_attr(const OpView& op) {
  return is_float(op.type(0).dtype) ? "imputed_value_floats" : "imputed_value_int64s";
}

/// A number, or one for each feature, in the type of the operand.
Tensor imputed_values(const OpView& op) {
  const DType dtype = op.type(0).dtype;
  if (!is_float(dtype)) return integers(dtype, ints_of(op.op(), imputed_attr(op)));
  const std::vector<double> values = reals_of(op, imputed_attr(op));
  Tensor tensor(dtype, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) tensor.put(static_cast<int64_t>(i), values[i]);
  return tensor;
}

bool infer_imputer(const OpView& op, std::vector<TensorType>& results) {
  if (!has_rows(op)) return false;
  const auto count = static_cast<size_t>(imputed_values(op).size());
  return fits_features(op, imputed_attr(op), count) && infer_same(op, results);
}

/// The number that marks a missing element, in the type of the operand.
Tensor replaced_value(const OpView& op) {
  const DType dtype = op.type(0).dtype;
  if (is_float(dtype)) return Tensor::scalar(dtype, real_of(op.op(), "replaced_value_float"));
  return integers(dtype, {int_of(op.op(), "replaced_value_int64")});
}

std::vector<ValueId> decompose_imputer(Builder& build, const OpView& op) {
  const Term x(build, op.op().inputs[0]);
  const Tensor replaced = replaced_value(op);
  const Term missing = std::isnan(replaced.at(0)) ? x.apply(OpKind::IsNaN) : x == Term(build, build.constant(replaced));
  return {missing.choose({build, build.constant(imputed_values(op))}, x).value()};
}

// OneHotEncoder: a new last dimension with an element for each category.

/// The categories, from the attribute that is present.
Tensor categories_of(const OpView& op) {
  const Op& encoder = op.op();
  const bool has_strings = encoder.has("cats_strings") && !encoder.texts("cats_strings").empty();
  return has_strings ? string_list(encoder.texts("cats_strings")) : Tensor::ints(ints_of(encoder, "cats_int64s"));
}

bool infer_one_hot_encoder(const OpView& op, std::vector<TensorType>& results) {
  if (op.op().has("cats_strings") && !are_elements(op, op.op().texts("cats_strings"), "a category")) return false;
  const Tensor categories = categories_of(op);
  const int64_t count = categories.size();
  if (count == 0) return op.fail("one-hot-categories", "neither cats_int64s nor cats_strings lists categories");
  if (!int_of(op.op(), "zeros"))
    return op.fail(
        "one-hot-unknown-unsupported",
        "zeros = 0 makes an unknown category an error of the run, which is not supported; zeros = 1 makes it "
        "a row of zeros (scikit-learn: handle_unknown='ignore')");
  if (!(categories.dtype == DType::String ? is_string_operand(op, 0) : has_numbers(op))) return false;
  Shape shape = op.type(0).shape;
  shape.push_back({count, {}});
  results = {{DType::F32, shape, {}}};
  return true;
}

std::vector<ValueId> decompose_one_hot_encoder(Builder& build, const OpView& op) {
  const Tensor categories = categories_of(op);
  const Term category(build, build.constant(categories));
  Term x(build, op.op().inputs[0]);
  if (categories.dtype != DType::String) x = x.cast(DType::I64);
  const ValueId column = build.op(OpKind::Unsqueeze, {x.value()}, {{"axes", Dims{op.type(0).ndim()}}});
  return {(Term(build, column) == category).cast(DType::F32).value()};
}

// FeatureVectorizer: concatenates matrices, each cut or padded with zeros to its number of columns.

bool infer_feature_vectorizer(const OpView& op, std::vector<TensorType>& results) {
  const std::vector<int64_t> columns = ints_of(op.op(), "inputdimensions");
  if (static_cast<int>(columns.size()) != op.inputs())
    return op.fail("vectorizer-dims", "inputdimensions has {} entries for {} operands", columns.size(), op.inputs());
  int64_t sum = 0;
  for (int i = 0; i < op.inputs(); ++i) {
    if (!has_ndim(op, i, 1, 2) || columns[i] < 0) return op.fail("vectorizer-dims", "operand {} is no matrix", i);
    if (op.type(i).ndim() == 2 && !has_fixed_features(op, i)) return false;
    if (op.type(i).shape[0].bound != op.type(0).shape[0].bound)
      return op.fail("vectorizer-dims", "operand {} has {} rows, the first one {}", i, op.dims(i)[0], op.dims(0)[0]);
    sum += columns[i];
  }
  results = {{DType::F32, {op.type(0).shape[0], {sum, {}}}, {}}};
  return true;
}

std::vector<ValueId> decompose_feature_vectorizer(Builder& build, const OpView& op) {
  const std::vector<int64_t> columns = ints_of(op.op(), "inputdimensions");
  std::vector<ValueId> parts;
  for (int i = 0; i < op.inputs(); ++i) {
    Term x = Term(build, op.op().inputs[i]).cast(DType::F32);
    if (x.dims().size() == 1) x = {build, build.op(OpKind::Unsqueeze, {x.value()}, {{"axes", Dims{1}}})};
    const int64_t own = x.dims()[1];
    if (own > columns[i]) x = x.slice(1, 0, columns[i]);
    if (own < columns[i])
      x = {build, build.op(OpKind::Pad, {x.value()}, {{"pads", Dims{0, 0, 0, columns[i] - own}}, {"value", 0.0}})};
    parts.push_back(x.value());
  }
  return {parts.size() == 1 ? parts[0] : build.op(OpKind::Concat, parts, {{"axis", int64_t{1}}})};
}

// ArrayFeatureExtractor: selects columns by number. A vector is a row.

/// The only dimension of the column numbers that is longer than 1; nothing if none or several are.
std::optional<int> columns_dim(const Shape& shape) {
  std::optional<int> found;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    if (shape[d].bound == 1 && !shape[d].is_run_time()) continue;
    if (found) return {};
    found = d;
  }
  return found || shape.empty() ? found : 0;
}

bool infer_array_feature_extractor(const OpView& op, std::vector<TensorType>& results) {
  if (!has_ndim(op, 0, 1) || op.type(1).dtype != DType::I64)
    return op.fail("extractor-dtype", "the numbers of columns have element type {}, expected i64",
                   dtype_name(op.type(1).dtype));
  const std::optional<int> dim = columns_dim(op.type(1).shape);
  if (!dim && !is_fixed(op, 1)) return false;
  Shape shape = op.type(0).shape;
  if (shape.size() == 1) shape.insert(shape.begin(), {1, {}});
  shape.back() = dim ? op.type(1).shape[*dim] : Extent{element_count(op.dims(1))};
  results = {{op.type(0).dtype, shape, {}}};
  return true;
}

std::vector<ValueId> decompose_array_feature_extractor(Builder& build, const OpView& op) {
  const int ndim = op.type(0).ndim(), columns_ndim = op.type(1).ndim();
  const std::optional<int> dim = columns_dim(op.type(1).shape);
  const int64_t count = element_count(op.dims(1));
  const Term x(build, op.op().inputs[0]);
  Term columns(build, op.op().inputs[1]);
  std::vector<int64_t> ones = range_of(0, columns_ndim);
  if (dim) ones.erase(ones.begin() + *dim);
  if (!dim)
    columns = columns.reshape({count});
  else if (!ones.empty())
    columns = {build, build.op(OpKind::Squeeze, {columns.value()}, {{"axes", ones}})};
  const ValueId picked = gather(build, x, columns, ndim - 1).value();
  return {ndim == 1 ? build.op(OpKind::Unsqueeze, {picked}, {{"axes", Dims{0}}}) : picked};
}

OpDef ml_record(OpKind kind, const char* name, std::vector<AttrSpec> attrs, InferFn infer, DecomposeFn decompose) {
  OpDef def;
  def.kind = kind;
  def.name = name;
  def.onnx = {name, 1, "ai.onnx.ml"};
  def.attrs = std::move(attrs);
  def.infer = infer;
  def.decompose = decompose;
  return def;
}

OpDef of_strings(OpDef def) {
  def.takes_strings = true;
  return def;
}

OpDef with_operands(OpDef def, Arity inputs) {
  def.inputs = inputs;
  return def;
}

}  // namespace

const OpDef kScaler = ml_record(OpKind::Scaler, "Scaler", {{"offset", AttrType::Reals}, {"scale", AttrType::Reals}},
                                infer_scaler, decompose_scaler);
const OpDef kNormalizer = ml_record(OpKind::Normalizer, "Normalizer", {choice("norm", "MAX", "MAX L1 L2")},
                                    infer_normalizer, decompose_normalizer);
const OpDef kBinarizer = ml_record(OpKind::Binarizer, "Binarizer", {{"threshold", AttrType::Real, 0.0}},
                                   infer_binarizer, decompose_binarizer);
const OpDef kImputer = ml_record(OpKind::Imputer, "Imputer",
                                 {{"imputed_value_floats", AttrType::Reals},
                                  {"imputed_value_int64s", AttrType::Ints},
                                  {"replaced_value_float", AttrType::Real, 0.0},
                                  {"replaced_value_int64", AttrType::Int, 0}},
                                 infer_imputer, decompose_imputer);
const OpDef kOneHotEncoder =
    of_strings(ml_record(OpKind::OneHotEncoder, "OneHotEncoder",
                         {{"cats_int64s", AttrType::Ints}, {"cats_strings", AttrType::Texts}, flag("zeros", 1)},
                         infer_one_hot_encoder, decompose_one_hot_encoder));
const OpDef kFeatureVectorizer =
    with_operands(ml_record(OpKind::FeatureVectorizer, "FeatureVectorizer", {{"inputdimensions", AttrType::Ints}},
                            infer_feature_vectorizer, decompose_feature_vectorizer),
                  {1, -1});
const OpDef kArrayFeatureExtractor =
    of_strings(with_operands(ml_record(OpKind::ArrayFeatureExtractor, "ArrayFeatureExtractor", {},
                                       infer_array_feature_extractor, decompose_array_feature_extractor),
                             {2, 2}));

}  // namespace weftc
