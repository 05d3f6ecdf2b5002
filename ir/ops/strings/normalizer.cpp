// StringNormalizer (ONNX StringNormalizer-10): removes stop words from a list, and changes the case of the others. If
// no word remains, the result is "".
//
//   "Monday" "tuesday" "monday"   without "monday", in any case, as capitals   ->   "TUESDAY"
#include <algorithm>

#include "ir/base/utf8.h"
#include "ir/ops/selection.h"
#include "ir/ops/strings/letter_case.h"
#include "ir/ops/strings/strings.h"

namespace weftc {

namespace {

// ChangeCase(x; ranges [n, 4]): letters by a table of LetterRange.

std::string changed(const std::string& text, const int64_t* ranges, int64_t count) {
  std::u32string points = *utf32_of(text);
  for (char32_t& point : points)
    for (int64_t r = 0; r < count; ++r) {
      const int64_t *const range = ranges + 4 * r, at = static_cast<int64_t>(point) - range[0];
      if (at < 0 || static_cast<int64_t>(point) > range[1] || at % range[2] != 0) continue;
      point = static_cast<char32_t>(static_cast<int64_t>(point) + range[3]);
      break;
    }
  return *utf8_of(points);
}

void eval_change_case(EvalContext& context) {
  const Tensor &x = context.in(0), &ranges = context.in(1);
  Tensor result(DType::String, context.result_dims[0]);
  for (int64_t i = 0; i < result.size(); ++i) {
    const std::string text = changed(string_of(x.integers[i]), ranges.integers.data(), ranges.dims[0]);
    context.is_refused |= !why_no_element(text).empty();
    result.integers[i] = string_id(text);
  }
  context.results[0] = std::move(result);
}

OpDef change_case() {
  OpDef def = string_look_up(OpKind::ChangeCase, "ChangeCase", 2, "weft::change_case($0, $1, $count)", eval_change_case,
                             [](const OpView& op, std::vector<TensorType>& results) {
                               return is_string_operand(op, 0) && infer_same(op, results);
                             });
  def.attrs = {{"count", AttrType::Int, {}, true}};
  return def;
}

std::vector<int64_t> case_table(bool to_upper) {
  std::vector<int64_t> numbers;
  for (const LetterRange& range : letter_ranges(to_upper))
    for (const int32_t number : {range.first, range.last, range.step, range.delta}) numbers.push_back(number);
  return numbers;
}

Term with_case(Builder& build, Term x, bool to_upper) {
  const std::vector<int64_t> numbers = case_table(to_upper);
  const auto count = static_cast<int64_t>(numbers.size()) / 4;
  Tensor table(DType::I32, {count, 4});
  table.integers = numbers;
  return {build, build.op(OpKind::ChangeCase, {x.value(), build.constant(table)}, {{"count", count}})};
}

std::string in_small_letters(const std::string& text) {
  const std::vector<int64_t> table = case_table(false);
  return changed(text, table.data(), static_cast<int64_t>(table.size()) / 4);
}

std::vector<std::string> stop_words(const Op& op) {
  std::vector<std::string> words = op.has("stopwords") ? op.texts("stopwords") : std::vector<std::string>();
  if (!int_of(op, "is_case_sensitive")) std::transform(words.begin(), words.end(), words.begin(), in_small_letters);
  return words;
}

/// The positions of the words that remain.
std::vector<int64_t> kept_places(const OpView& op, const Tensor& words) {
  const std::vector<std::string> stop = stop_words(op.op());
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < words.size(); ++i) {
    const std::string& word = string_of(words.integers[i]);
    const std::string& compared = int_of(op.op(), "is_case_sensitive") ? word : in_small_letters(word);
    if (!contains(stop, compared)) kept.push_back(i);
  }
  return kept;
}

/// Refuses Turkish, Azeri and Lithuanian: their cases differ from Unicode's table.
bool check_locale(const OpView& op) {
  const std::string locale = text_of(op.op(), "locale");
  for (const char* language : {"tr", "az", "lt"})
    if (locale.starts_with(language) && (locale.size() == 2 || locale[2] == '_' || locale[2] == '-'))
      return op.fail("normalizer-locale-unsupported",
                     "locale '{}' is not supported: letters change their case as in Unicode's table",
                     printable(locale));
  return true;
}

bool check_normalizer(const OpView& op) {
  const Shape& shape = op.type(0).shape;
  const bool is_row = shape.size() == 2 && shape[0].bound == 1 && !shape[0].is_run_time();
  if (shape.size() != 1 && !is_row)
    return op.fail("normalizer-shape", "the strings have shape {}, expected [C] or [1, C]", shape_text(shape));
  const bool has_words = op.op().has("stopwords");
  return check_locale(op) && (!has_words || are_elements(op, op.op().texts("stopwords"), "a stop word"));
}

bool leaves_words_out(const OpView& op) { return op.op().has("stopwords") && !op.op().texts("stopwords").empty(); }
bool is_counted_now(const OpView& op) { return !leaves_words_out(op) || op.type(0).count() == 0 || op.known(0); }

bool infer_normalizer(const OpView& op, std::vector<TensorType>& results) {
  if (!is_string_operand(op, 0) || !check_normalizer(op)) return false;
  if (!is_counted_now(op) && !may_have_counts(op)) return false;
  Shape shape = op.type(0).shape;
  const std::optional<Tensor> known = op.known(0);
  if (known)
    shape.back() = {std::max<int64_t>(1, static_cast<int64_t>(kept_places(op, *known).size())), {}};
  else if (leaves_words_out(op) || op.type(0).count() == 0)
    shape.back() = {std::max<int64_t>(1, shape.back().bound), {}};
  results = {{DType::String, shape, {}}};
  return true;
}

/// The remaining words, whose number data decides. Without any, the result is the "" that is prepended to the list.
Term chosen_words(Builder& build, const OpView& op, Term words) {
  const Term compared = int_of(op.op(), "is_case_sensitive") ? words : with_case(build, words, false);
  const std::vector<std::string> stop = stop_words(op.op());
  const Term mask = position_in(build, compared, stop) == static_cast<double>(stop.size());
  const int64_t most = words.dims()[0];
  const std::vector<ValueId> found = build.ops(OpKind::TruePositions, {mask.value()}, {{"most", most}}, 2);
  const Term count(build, found[1]), any = count > 0;
  const Extent extent = build.counted_extent(count.apply(OpKind::Max, 1).value(), most);
  const Term places(build, shortened(build, found[0], 0, extent));
  const ValueId none = build.constant(string_list({""}));
  const Term all(build, build.op(OpKind::Concat, {none, words.value()}, {{"axis", int64_t{0}}}));
  return gather(build, all, any.choose(places + 1, places.scalar(0)), 0);
}

Term words_left(Builder& build, const OpView& op, Term words) {
  const std::optional<Tensor> known = op.known(0);
  const std::vector<int64_t> kept = known ? kept_places(op, *known) : std::vector<int64_t>();
  if (op.type(0).count() == 0 || (known && kept.empty())) return {build, build.constant(string_list({""}))};
  if (known) return gather(build, words, {build, build.ints(kept)}, 0);
  return leaves_words_out(op) ? chosen_words(build, op, words) : words;
}

std::vector<ValueId> decompose_normalizer(Builder& build, const OpView& op) {
  const Term words(build, flattened(build, op.op().inputs[0]));
  Term left = words_left(build, op, words);
  const std::string& action = text_of(op.op(), "case_change_action");
  if (action != "NONE") left = with_case(build, left, action == "UPPER");
  if (op.type(0).ndim() == 1) return {left.value()};
  return {build.reshape_to(left.value(), {{1, {}}, build.type(left.value()).shape[0]})};
}

}  // namespace

const OpDef kChangeCase = change_case();

const OpDef kStringNormalizer{.kind = OpKind::StringNormalizer,
                              .name = "StringNormalizer",
                              .onnx = {"StringNormalizer", 10},
                              .attrs = {choice("case_change_action", "NONE", "NONE LOWER UPPER"),
                                        flag("is_case_sensitive", 0),
                                        {"locale", AttrType::Text, "en_US"},
                                        {"stopwords", AttrType::Texts}},
                              .infer = infer_normalizer,
                              .decompose = decompose_normalizer,
                              .is_typed_by_parts = [](const OpView& op) { return !is_counted_now(op); },
                              .takes_strings = true};

}  // namespace weftc
