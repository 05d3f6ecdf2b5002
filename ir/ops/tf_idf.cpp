// TfIdfVectorizer (ONNX TfIdfVectorizer-9) on integers or strings: how often each n-gram of a pool occurs in a row,
// with up to max_skip_count elements left out between its neighbours.
//
//   row 1 2 1 2, pool {1 2}, no skips:  2      skips up to 1: the same, as 1 . 1 and 2 . 2 are other n-grams
//
// For each distance, the row is compared with element j of every n-gram at j times the distance; where all agree
// counts.
#include <algorithm>
#include <map>
#include <set>

#include "ir/ops/formula.h"
#include "ir/ops/index.h"
#include "ir/ops/strings/strings.h"

namespace weftc {

namespace {

/// The n-grams of one length, as columns of the pool.
struct Grams {
  int64_t length, count;
  std::vector<std::vector<double>> elements;  // [length][count]
};

/// The strings of a pool, each once.
std::vector<std::string> words_of(const Op& tf) {
  const std::vector<std::string>& pool = tf.texts("pool_strings");
  const std::set<std::string> words(pool.begin(), pool.end());
  return {words.begin(), words.end()};
}

/// The elements of the pool; a string is represented by its position among the words.
std::vector<int64_t> pool_of(const Op& tf) {
  if (!tf.has("pool_strings")) return ints_of(tf, "pool_int64s");
  const std::vector<std::string> words = words_of(tf);
  std::map<std::string, int64_t> places;
  for (size_t i = 0; i < words.size(); ++i) places.emplace(words[i], static_cast<int64_t>(i));
  std::vector<int64_t> pool;
  for (const std::string& word : tf.texts("pool_strings")) pool.push_back(places.at(word));
  return pool;
}

/// The pool cut at ngram_counts; nothing after reporting.
std::optional<std::vector<Grams>> grams_of(const OpView& op) {
  const std::vector<int64_t> pool = pool_of(op.op()), starts = ints_of(op.op(), "ngram_counts");
  std::vector<Grams> all;
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto length = static_cast<int64_t>(i) + 1,
               end = i + 1 < starts.size() ? starts[i + 1] : static_cast<int64_t>(pool.size());
    const int64_t elements = end - starts[i];
    if (starts[i] < 0 || elements < 0 || end > static_cast<int64_t>(pool.size()) || elements % length)
      return op.fail("tf-idf-pool", "ngram_counts {} do not cut a pool of {} elements into n-grams", dims_text(starts),
                     pool.size()),
             std::nullopt;
    Grams grams{length, elements / length, std::vector<std::vector<double>>(length)};
    for (int64_t e = 0; e < elements; ++e)
      grams.elements[e % length].push_back(static_cast<double>(pool[starts[i] + e]));
    all.push_back(grams);
  }
  return all;
}

bool check_pool(const OpView& op) {
  if (op.op().has("pool_int64s") == op.op().has("pool_strings"))
    return op.fail("tf-idf-pool", "the pool has to be listed in either pool_int64s or pool_strings");
  if (op.op().has("pool_strings") && !are_elements(op, op.op().texts("pool_strings"), "a word of the pool"))
    return false;
  const std::optional<std::vector<Grams>> grams = grams_of(op);
  if (!grams) return false;
  size_t count = 0;
  for (const Grams& g : *grams) count += g.count;
  std::vector<int64_t> indexes = ints_of(op.op(), "ngram_indexes");
  const bool has_weights = op.op().has("weights");
  if (indexes.size() != count || count == 0 || (has_weights && op.op().reals("weights").size() != count))
    return op.fail("tf-idf-pool", "{} n-grams have {} indexes", count, indexes.size());
  std::sort(indexes.begin(), indexes.end());
  if (indexes[0] < 0 || std::adjacent_find(indexes.begin(), indexes.end()) != indexes.end())
    return op.fail("tf-idf-indexes-unsupported", "indexes that are negative or that n-grams share are not supported");
  return true;
}

/// Rows [C] or [B, C]; the result has an element for each index up to the largest.
bool infer_tf_idf(const OpView& op, std::vector<TensorType>& results) {
  const bool has_strings = op.op().has("pool_strings");
  if (!check_pool(op) || !(has_strings ? is_string_operand(op, 0) : integer_operand(op, 0)) || !has_ndim(op, 0, 1, 2) ||
      !is_fixed(op, 0))
    return false;
  const std::vector<int64_t>& indexes = op.op().ints("ngram_indexes");
  Dims dims = op.dims(0);
  dims.back() = *std::max_element(indexes.begin(), indexes.end()) + 1;
  results = {{DType::F32, shape_of(dims), {}}};
  return true;
}

/// The number of occurrences of each n-gram in rows [B, C] with neighbours `distance` apart: [B, grams].
Term occurrences(Builder& build, Term rows, const Grams& grams, int64_t distance) {
  const int64_t count = rows.dims()[0], places = rows.dims()[1] - distance * (grams.length - 1);
  std::optional<Term> agrees;
  for (int64_t j = 0; j < grams.length; ++j) {
    const Term window = rows.slice(1, j * distance, j * distance + places).reshape({count, places, 1});
    const Term own = window == constant(build, DType::I64, {grams.count}, grams.elements[j]);
    agrees = agrees ? *agrees && own : own;
  }
  return agrees->cast(DType::F32).reduce(OpKind::ReduceSum, {1}, false);
}

/// Over all distances. Single elements have no neighbours: they count once.
Term counted(Builder& build, const Op& op, Term rows, const Grams& grams) {
  Term sum =
      constant(build, DType::F32, {rows.dims()[0], grams.count}, std::vector<double>(rows.dims()[0] * grams.count, 0));
  if (grams.length < op.integer("min_gram_length") || grams.length > op.integer("max_gram_length")) return sum;
  const int64_t distances = grams.length == 1 ? 1 : op.integer("max_skip_count") + 1;
  for (int64_t d = 1; d <= distances && d * (grams.length - 1) < rows.dims()[1]; ++d)
    sum = sum + occurrences(build, rows, grams, d);
  return sum;
}

/// Counts the n-grams in the order of the pool, then moves them to their indexes; a column of zeros fills the others.
std::vector<ValueId> decompose_tf_idf(Builder& build, const OpView& op) {
  const Op& tf = op.op();
  const std::vector<Grams> all = *grams_of(op);
  const Dims dims = op.dims(0), result = op.result_type(0).dims();
  const Term x(build, tf.inputs[0]);
  const Term elements = tf.has("pool_strings") ? position_in(build, x, words_of(tf)) : x.cast(DType::I64);
  const Term rows = elements.reshape({dims.size() == 1 ? 1 : dims[0], dims.back()});
  std::vector<ValueId> columns;
  for (const Grams& grams : all)
    if (grams.count) columns.push_back(counted(build, tf, rows, grams).value());
  Term counts(build, build.op(OpKind::Concat, columns, {{"axis", int64_t{1}}}));
  const std::string& mode = text_of(tf, "mode");
  const int64_t grams = counts.dims()[1];
  if (mode != "TF") {
    const std::vector<double> given = tf.has("weights") ? tf.reals("weights") : std::vector<double>(grams, 1);
    const Term weights = constant(build, DType::F32, {grams}, given);
    counts = mode == "TFIDF" ? counts * weights : (counts > 0).choose(weights, counts);
  }
  std::vector<int64_t> from(result.back(), grams);
  const std::vector<int64_t>& indexes = tf.ints("ngram_indexes");
  for (size_t i = 0; i < indexes.size(); ++i) from[indexes[i]] = static_cast<int64_t>(i);
  const Term padded(build, build.op(OpKind::Pad, {counts.value()}, {{"pads", Dims{0, 0, 0, 1}}}));
  return {gather(build, padded, Term(build, build.ints(from)), 1).reshape(result).value()};
}

}  // namespace

const OpDef kTfIdfVectorizer{.kind = OpKind::TfIdfVectorizer,
                             .name = "TfIdfVectorizer",
                             .onnx = {"TfIdfVectorizer", 9},
                             .attrs = {{"max_gram_length", AttrType::Int, {}, true},
                                       {"max_skip_count", AttrType::Int, {}, true},
                                       {"min_gram_length", AttrType::Int, {}, true},
                                       choice("mode", {}, "TF IDF TFIDF"),
                                       {"ngram_counts", AttrType::Ints, {}, true},
                                       {"ngram_indexes", AttrType::Ints, {}, true},
                                       {"pool_int64s", AttrType::Ints},
                                       {"pool_strings", AttrType::Texts},
                                       {"weights", AttrType::Reals}},
                             .infer = infer_tf_idf,
                             .decompose = decompose_tf_idf,
                             .takes_strings = true};

}  // namespace weftc
