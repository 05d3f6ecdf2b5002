// Strings as numbers of a table and as elements in memory; regular expressions; what operators on strings give when
// their operands are known and when they are not.
#include "ir/ops/strings/strings.h"

#include <doctest/doctest.h>

#include "ir/base/utf8.h"
#include "ir/ops/strings/automaton.h"
#include "passes/prepare/fold.h"
#include "test/ir/ops_test.h"

namespace weftc {

namespace {

Tensor words(Dims dims, const std::vector<std::string>& strings) {
  Tensor tensor = string_list(strings);
  tensor.dims = std::move(dims);
  return tensor;
}

bool matches(const std::string& text, const std::string& string) {
  Regex pattern;
  RegexFault fault;
  REQUIRE_MESSAGE(parse_regex(text, pattern, fault), text << " " << fault.what);
  const std::vector<int32_t> table = *automaton_of(pattern);
  int32_t state = 0;
  for (const char byte : string) state = table[static_cast<size_t>(state * kAutomatonRow + static_cast<uint8_t>(byte))];
  return table[static_cast<size_t>(state * kAutomatonRow + 256)] != 0;
}

RegexFault fault_of(const std::string& text) {
  Regex pattern;
  RegexFault fault;
  CHECK_FALSE(parse_regex(text, pattern, fault));
  return fault;
}

/// The results of an op on constants: its shape is known when it is typed.
std::vector<Tensor> of_constants(OpKind kind, const std::vector<Tensor>& operands, const Attrs& attrs, int outputs) {
  OneOp one;
  std::vector<ValueId> values;
  for (const Tensor& tensor : operands) values.push_back(one.constant(tensor));
  REQUIRE(one.add(kind, values, attrs, outputs));
  const std::vector<Dims> dims = [&] {
    std::vector<Dims> all;
    for (ValueId v : one.module.graph.op(one.op).outputs) all.push_back(one.module.graph.type(v).dims());
    return all;
  }();
  REQUIRE(one.decompose());
  std::vector<Tensor> results = one.run();
  for (size_t r = 0; r < results.size(); ++r) CHECK(results[r].dims == dims[r]);
  return results;
}

const std::string kLong(200, 'a');

}  // namespace

TEST_CASE("equal strings have one number, and a tensor of them lies in memory with its bytes") {
  CHECK(string_id("") == 0);
  CHECK(string_id("ab") == string_id(std::string("a") + "b"));
  CHECK(string_id("ab") != string_id("ba"));
  const Tensor tensor = words({2, 2}, {"", "a", "\xc3\xa9", std::string(255, 'x')});
  const std::vector<std::byte> bytes = tensor_to_bytes(tensor);
  CHECK(bytes.size() == 4 * 256);
  CHECK(relative_error(tensor_from_bytes(DType::String, {2, 2}, bytes), tensor) == 0);
  CHECK(why_no_element(std::string(255, 'x')).empty());
  CHECK(why_no_element(std::string(256, 'x')) == "has 256 bytes, more than the 255 that an element has room for");
  CHECK(why_no_element("\xff") == "is no UTF-8");
}

TEST_CASE("UTF-8 that is cut off, too long for its code point or a surrogate is none") {
  for (const char* good : {"", "a", "\xc3\xa9", "\xe4\xbd\xa0", "\xf0\x9f\x98\x80"})
    CHECK(utf8_of(*utf32_of(good)) == good);
  for (const char* bad : {"\x80", "\xc3", "\xc0\x80", "\xe4\xbd", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"})
    CHECK_FALSE(utf32_of(bad));
  CHECK_FALSE(utf8_of(std::u32string(1, 0xd800)));
}

TEST_CASE("regular expressions match as a whole") {
  struct Row {
    const char *pattern, *string;
    bool is_match;
  };
  const Row rows[] = {
      {"", "", true},
      {"", "a", false},
      {"a|", "", true},
      {"abc", "abc", true},
      {"abc", "abcd", false},
      {"a|bc", "bc", true},
      {"(a|b)c", "bc", true},
      {"a*", "aaa", true},
      {"a+?", "", false},
      {"a{2,3}", "aaaa", false},
      {"a{2,}", "aaaa", true},
      {"a{,3}", "a{,3}", true},
      {"[^a-c]", "d", true},
      {"[]a]+", "a]", true},
      {"[a-]", "-", true},
      {"\\d+\\.\\d*", "12.", true},
      {"\\W", "\xc3\xa9", true},
      {".", "\xe4\xbd\xa0", true},
      {".", "\n", false},
      {"(?s).", "\n", true},
      {"[\xc3\xa0-\xc3\xbf]", "\xc3\xa9", true},
      {"(?i)Weft", "wEFT", true},
      {"(?i)k", "\xe2\x84\xaa", true},
      {"(?i:a)B", "Ab", false},
      {"a(?i)b", "aB", true},
      {"^a$", "a", true},
      {"a^b", "ab", false},
      {"(?m)a$\\n^b", "a\nb", true},
      {"a\\bb", "ab", false},
      {"a\\b b", "a b", true},
      {"\\Ba", "a", false},
      {"\\Qa.b\\E+", "a.bb", true},
      {"\\x41\\x{4f60}\\101",
       "A\xe4\xbd\xa0"
       "A",
       true},
      {"[[:alpha:]_]+", "a_Z", true},
      {"(?P<n>a)(?:b)", "ab", true},
      {"www\\.[\\w.-]+\\.\\bcom\\b", "www.google.com", true},
      {"www\\.[\\w.-]+\\.\\bcom\\b", "www.google.com0", false},
      {"(\\W|^)[\\w.\\-]{0,25}@(yahoo|gmail)\\.com(\\W|$)", "account@yahoo.com", true},
      {"(\\W|^)[\\w.\\-]{0,25}@(yahoo|gmail)\\.com(\\W|$)", "account@hotmail.com", false},
  };
  for (const Row& row : rows) CHECK_MESSAGE(matches(row.pattern, row.string) == row.is_match, row.pattern);
}

TEST_CASE("what is no expression of RE2 is told, and what is not supported is told apart") {
  for (const char* wrong : {"a)", "(a", "[a", "*a", "a**", "a{3,2}", "a{1001}", "(a{100}){100}", "[b-a]", "\\1",
                            "(?=a)", "(?<!a)", "\\", "[[:none:]]", "\\x{110000}", "\xff"})
    CHECK_MESSAGE(!fault_of(wrong).is_unsupported, wrong);
  for (const char* lacking : {"\\pN", "\\C", "(?i)\xc3\xa9"}) CHECK_MESSAGE(fault_of(lacking).is_unsupported, lacking);
  Regex pattern;
  RegexFault fault;
  REQUIRE(parse_regex("[ab]*a[ab]{12}", pattern, fault));
  CHECK_FALSE(automaton_of(pattern));
  REQUIRE(parse_regex("([ab]?){1000}([ab]?){900}", pattern, fault));  // 1900 states of up to thousands of places
  CHECK_FALSE(automaton_of(pattern));
}

TEST_CASE("strings that are known are split and normalized when the model is compiled") {
  const std::vector<Tensor> split =
      of_constants(OpKind::StringSplit, {words({2}, {"a.b.c", ""})}, {{"delimiter", std::string(".")}}, 2);
  CHECK(relative_error(split[0], words({2, 3}, {"a", "b", "c", "", "", ""})) == 0);
  CHECK(relative_error(split[1], ints({2}, {3, 1})) == 0);
  const std::vector<Tensor> none = of_constants(OpKind::StringSplit, {words({0}, {})}, {}, 2);
  CHECK(none[0].dims == Dims{0, 0});
  const Attrs attrs = {{"case_change_action", std::string("UPPER")}, {"stopwords", std::vector<std::string>{"Monday"}}};
  const Tensor left = of_constants(OpKind::StringNormalizer,
                                   {words({1, 3}, {"monday",
                                                   "stra\xc3\x9f"
                                                   "e",
                                                   "\xc3\xa9t\xc3\xa9"})},
                                   attrs, 1)[0];
  CHECK(relative_error(left, words({1, 2}, {"STRA\xc3\x9f"
                                            "E",
                                            "\xc3\x89T\xc3\x89"})) == 0);
  const Tensor nothing = of_constants(OpKind::StringNormalizer, {words({1}, {"MONDAY"})}, attrs, 1)[0];
  CHECK(relative_error(nothing, words({1}, {""})) == 0);
}

TEST_CASE("labels, categories and words of a vocabulary are found among strings") {
  using Texts = std::vector<std::string>;
  const Tensor x = words({3}, {"b", "a", "none"});
  CHECK(decomposed(OpKind::LabelEncoder, {x},
                   {{"keys_strings", Texts{"b", "a", "b"}}, {"values_int64s", std::vector<int64_t>{1, 2, 3}}})
            .integers == std::vector<int64_t>{1, 2, -1});
  const Tensor back = decomposed(OpKind::CategoryMapper, {ints({2}, {7, 8})},
                                 {{"cats_int64s", std::vector<int64_t>{7, 9}}, {"cats_strings", Texts{"x", "y"}}});
  CHECK(relative_error(back, words({2}, {"x", "_Unused"})) == 0);
  const Tensor hot = decomposed(OpKind::OneHotEncoder, {x}, {{"cats_strings", Texts{"a", "b"}}});
  CHECK(hot.real == std::vector<double>{0, 1, 1, 0, 0, 0});
  const Tensor counts = decomposed(OpKind::TfIdfVectorizer, {words({5}, {"a", "b", "a", "b", "c"})},
                                   {{"max_gram_length", int64_t{2}},
                                    {"max_skip_count", int64_t{0}},
                                    {"min_gram_length", int64_t{1}},
                                    {"mode", std::string("TF")},
                                    {"ngram_counts", std::vector<int64_t>{0, 2}},
                                    {"ngram_indexes", std::vector<int64_t>{0, 1, 2}},
                                    {"pool_strings", Texts{"b", "c", "a", "b"}}});
  CHECK(counts.real == std::vector<double>{2, 1, 2});
}

TEST_CASE("what a program refuses is not folded") {
  for (const bool fits : {true, false}) {
    OneOp one;
    const ValueId x = one.constant(words({1}, {kLong})), y = one.constant(words({1}, {fits ? "b" : kLong}));
    REQUIRE(one.add(OpKind::StringConcat, {x, y}));
    REQUIRE(is_foldable(one.module, one.module.graph, one.op));
    fold_op(one.module, one.module.graph, one.op);
    const ValueId result = one.module.graph.outputs()[0].value;
    CHECK((one.module.graph.producer_op(result).kind == OpKind::Constant) == fits);
  }
}

TEST_CASE("numbers are computed with, strings are not") {
  const Tensor strings = words({2}, {"a", "b"});
  for (const OpKind kind : {OpKind::Add, OpKind::Less, OpKind::Max}) {
    OneOp one;
    const ValueId x = one.input(strings);
    CHECK_FALSE(one.add(kind, {x, x}));
    CHECK(one.diags.all()[0].id == "strings-unsupported");
  }
  for (const DType to : {DType::Bool, DType::F16, DType::I4}) {
    OneOp one;
    CHECK_FALSE(one.add(OpKind::Cast, {one.input(strings)}, {{"to", dtype_attr(to)}}));
    CHECK(one.diags.all()[0].id == "cast-string-unsupported");
  }
}

}  // namespace weftc
