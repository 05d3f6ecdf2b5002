// LabelEncoder, CategoryMapper and ZipMap of ai.onnx.ml.
//
//   LabelEncoder(x; keys, values)  ->  the value for the key that equals x, else the default
//   ZipMap(x; classes)             ->  x: a row of numbers, in the order of classes, replaces the map from classes
#include <algorithm>
#include <limits>

#include "ir/ops/ml/scores.h"
#include "ir/ops/strings/strings.h"

namespace weftc {

namespace {

/// The list `keys` or `values` of a LabelEncoder, from the attribute that is present; nothing without one.
std::optional<Tensor> list_of(const OpView& op, const std::string& list) {
  const Op& encoder = op.op();
  if (encoder.has(list + "_strings")) return string_list(encoder.texts(list + "_strings"));
  if (encoder.has(list + "_tensor")) return op.module().constants.tensor(encoder.constant(list + "_tensor"));
  if (encoder.has(list + "_int64s")) return Tensor::ints(encoder.ints(list + "_int64s"));
  if (!encoder.has(list + "_floats")) return {};
  const std::vector<double>& reals = encoder.reals(list + "_floats");
  Tensor tensor(DType::F32, {static_cast<int64_t>(reals.size())});
  tensor.real = reals;
  return tensor;
}

Tensor default_tensor(const OpView& op) { return op.module().constants.tensor(op.op().constant("default_tensor")); }

/// The value for a number that is not a key, in the type of the values.
Tensor default_of(const OpView& op, DType dtype) {
  const Op& encoder = op.op();
  if (encoder.has("default_tensor")) {
    Tensor given = default_tensor(op);
    given.dims = {};
    return given;
  }
  if (dtype == DType::String) return string_scalar(text_of(encoder, "default_string"));
  if (is_float(dtype)) return Tensor::scalar(dtype, real_of(encoder, "default_float"));
  Tensor tensor(dtype, {});
  tensor.put_int(0, int_of(encoder, "default_int64"));
  return tensor;
}

/// The strings of a tensor.
std::vector<std::string> strings_of(const Tensor& tensor) {
  std::vector<std::string> strings;
  for (size_t i = 0; tensor.dtype == DType::String && i < tensor.integers.size(); ++i)
    strings.push_back(string_of(tensor.integers[i]));
  return strings;
}

bool infer_label_encoder(const OpView& op, std::vector<TensorType>& results) {
  const std::optional<Tensor> keys = list_of(op, "keys"), values = list_of(op, "values");
  if (!keys || !values) return op.fail("label-lists", "keys or values are missing");
  if (!are_elements(op, strings_of(*keys), "a key") || !are_elements(op, strings_of(*values), "a value")) return false;
  if (keys->size() != values->size() || keys->size() == 0)
    return op.fail("label-lengths", "{} keys do not fit {} values", keys->size(), values->size());
  if (keys->dtype != op.type(0).dtype)
    return op.fail("label-dtype", "keys of element type {} do not fit an operand of {}", dtype_name(keys->dtype),
                   dtype_name(op.type(0).dtype));
  if (op.op().has("default_tensor") && element_count(default_tensor(op).dims) != 1)
    return op.fail("label-default", "the default has {} elements, expected one",
                   element_count(default_tensor(op).dims));
  if (default_of(op, values->dtype).dtype != values->dtype)
    return op.fail("label-dtype", "the default has another element type than the values, {}",
                   dtype_name(values->dtype));
  results = {{values->dtype, op.type(0).shape, {}}};
  return true;
}

/// For integer keys that lie close together: a table of values by key, from the least key on. It has the default in
/// gaps, before the first key and after the last. The first of equal keys counts.
std::optional<Tensor> value_table(const Tensor& keys, const Tensor& values, const Tensor& otherwise) {
  constexpr uint64_t kMostGaps = 16, kSmall = 4096;
  if (keys.is_real() || keys.dtype == DType::String) return {};
  const auto [least, most] = std::minmax_element(keys.integers.begin(), keys.integers.end());
  const uint64_t range = static_cast<uint64_t>(*most) - static_cast<uint64_t>(*least);
  if (range > std::max(kSmall, kMostGaps * static_cast<uint64_t>(keys.size()))) return {};
  if (*least == std::numeric_limits<int64_t>::min() || *most == std::numeric_limits<int64_t>::max()) return {};
  Tensor table(values.dtype, {static_cast<int64_t>(range) + 3});
  for (int64_t i = 0; i < table.size(); ++i) table.copy_element(i, otherwise, 0);
  for (int64_t i = keys.size() - 1; i >= 0; --i) table.copy_element(keys.integers[i] - *least + 1, values, i);
  return table;
}

/// The index of the key that each number equals, found by comparing it with all keys; the number of keys if it equals
/// none.
Term first_match(Builder& build, const OpView& op, Term x, const Tensor& keys) {
  const int64_t ndim = op.type(0).ndim(), count = keys.size();
  const Term column(build, build.op(OpKind::Unsqueeze, {x.value()}, {{"axes", Dims{ndim}}}));
  Tensor list = keys;
  list.dims = {count};
  Term matches = column == Term(build, build.constant(list));
  if (keys.is_real() && op.op().integer_or("nan_is_key", 0)) {
    const Term key_is_nan = Term(build, build.constant(list)).apply(OpKind::IsNaN);
    matches = matches.apply(OpKind::Or, column.apply(OpKind::IsNaN) && key_is_nan);
  }
  const Term none = constant(build, DType::I64, {}, {static_cast<double>(count)});
  return matches.choose(positions(build, DType::I64, count, 0, 1), none).reduce(OpKind::ReduceMin, {ndim}, false);
}

/// A look-up, or a comparison with each key; of several matching keys the first one counts.
std::vector<ValueId> decompose_label_encoder(Builder& build, const OpView& op) {
  const Tensor keys = *list_of(op, "keys"), values = *list_of(op, "values"), otherwise = default_of(op, values.dtype);
  const Term x(build, op.op().inputs[0]);
  if (const std::optional<Tensor> table = value_table(keys, values, otherwise)) {
    const int64_t least = *std::min_element(keys.integers.begin(), keys.integers.end()) - 1;
    const Term place = x.cast(DType::I64).apply(OpKind::Max, {build, build.constant(Tensor::ints({least}))});
    const Term last(build, build.constant(Tensor::ints({least + table->size() - 1})));
    const Term index = place.apply(OpKind::Min, last) - Term(build, build.constant(Tensor::ints({least})));
    return {pick(build, {build, build.constant(*table)}, index, 0).value()};
  }
  const int64_t count = keys.size();
  Tensor extended(values.dtype, {count + 1});
  for (int64_t i = 0; i < count; ++i) extended.copy_element(i, values, i);
  extended.copy_element(count, otherwise, 0);
  const Term first =
      keys.dtype == DType::String ? position_in(build, x, strings_of(keys)) : first_match(build, op, x, keys);
  return {pick(build, {build, build.constant(extended)}, first, 0).value()};
}

/// Since version 4 NaN matches a NaN among the keys; before, as in any comparison, it does not.
bool import_label_encoder(Graph& graph, OpId id, int opset, const OpView&) {
  graph.edit(id).set("nan_is_key", int64_t{opset >= 4});
  return true;
}

/// Strings become integers, and integers strings.
bool infer_category_mapper(const OpView& op, std::vector<TensorType>& results) {
  const size_t strings = op.op().texts("cats_strings").size(), integers = op.op().ints("cats_int64s").size();
  if (strings != integers || strings == 0)
    return op.fail("category-lengths", "{} strings do not fit {} integers", strings, integers);
  if (!are_elements(op, op.op().texts("cats_strings"), "a category")) return false;
  const bool is_named = op.type(0).dtype == DType::String;
  if (!is_named && op.type(0).dtype != DType::I64)
    return op.fail("category-dtype", "the operand has element type {}, expected string or i64",
                   dtype_name(op.type(0).dtype));
  results = {{is_named ? DType::I64 : DType::String, op.type(0).shape, {}}};
  return true;
}

/// A LabelEncoder with keys of the operand's type.
std::vector<ValueId> decompose_category_mapper(Builder& build, const OpView& op) {
  const Op& mapper = op.op();
  const bool is_named = op.type(0).dtype == DType::String;
  const char *strings = is_named ? "keys_strings" : "values_strings",
             *integers = is_named ? "values_int64s" : "keys_int64s";
  return {build.op(OpKind::LabelEncoder, {mapper.inputs[0]},
                   {{"default_int64", int_of(mapper, "default_int64")},
                    {"default_string", text_of(mapper, "default_string")},
                    {integers, mapper.ints("cats_int64s")},
                    {strings, mapper.texts("cats_strings")}})};
}

const ClassAttrs kClasses{"classlabels_int64s", "classlabels_strings"};

bool infer_zip_map(const OpView& op, std::vector<TensorType>& results) {
  const int64_t classes = class_count(op, kClasses);
  if (classes == 0 || !has_rows(op)) return false;
  if (classes != op.dims(0).back())
    return op.fail("zip-map-classes", "{} classes do not fit rows of {} numbers", classes, op.dims(0).back());
  return infer_same(op, results);
}

/// The keys are reported when the model is compiled; the program has their numbers only.
bool import_zip_map(Graph&, OpId, int, const OpView& op) {
  std::vector<std::string> keys;
  for (int64_t key : ints_of(op.op(), kClasses.integers)) keys.push_back(std::to_string(key));
  if (op.op().has(kClasses.strings))
    for (const std::string& key : op.op().texts(kClasses.strings)) keys.push_back(quote(key));
  op.warn("zip-map", "the result is a tensor with a row for each map: its columns are the keys [{}]", join(keys, ", "));
  return true;
}

}  // namespace

const OpDef kLabelEncoder{.kind = OpKind::LabelEncoder,
                          .name = "LabelEncoder",
                          .onnx = {"LabelEncoder", 2, "ai.onnx.ml"},
                          .attrs = {{"default_float", AttrType::Real, -0.0},
                                    {"default_int64", AttrType::Int, -1},
                                    {"default_string", AttrType::Text, "_Unused"},
                                    {"default_tensor", AttrType::Tensor},
                                    {"keys_floats", AttrType::Reals},
                                    {"keys_int64s", AttrType::Ints},
                                    {"keys_strings", AttrType::Texts},
                                    {"keys_tensor", AttrType::Tensor},
                                    {.name = "nan_is_key", .type = AttrType::Int, .otherwise = 0, .is_own = true},
                                    {"values_floats", AttrType::Reals},
                                    {"values_int64s", AttrType::Ints},
                                    {"values_strings", AttrType::Texts},
                                    {"values_tensor", AttrType::Tensor}},
                          .import = import_label_encoder,
                          .infer = infer_label_encoder,
                          .decompose = decompose_label_encoder,
                          .takes_strings = true};

const OpDef kCategoryMapper{.kind = OpKind::CategoryMapper,
                            .name = "CategoryMapper",
                            .onnx = {"CategoryMapper", 1, "ai.onnx.ml"},
                            .attrs = {{"cats_int64s", AttrType::Ints, {}, true},
                                      {"cats_strings", AttrType::Texts, {}, true},
                                      {"default_int64", AttrType::Int, -1},
                                      {"default_string", AttrType::Text, "_Unused"}},
                            .infer = infer_category_mapper,
                            .decompose = decompose_category_mapper,
                            .takes_strings = true};

const OpDef kZipMap{.kind = OpKind::ZipMap,
                    .name = "ZipMap",
                    .onnx = {"ZipMap", 1, "ai.onnx.ml"},
                    .attrs = {{"classlabels_int64s", AttrType::Ints}, {"classlabels_strings", AttrType::Texts}},
                    .import = import_zip_map,
                    .infer = infer_zip_map,
                    .decompose = [](Builder& build, const OpView& op) {
                      return std::vector<ValueId>{build.op(OpKind::Identity, {op.op().inputs[0]})};
                    }};

}  // namespace weftc
