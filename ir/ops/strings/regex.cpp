// A parser by recursive descent, on code points:
//
//   choice    sequence | sequence | ...
//   sequence  repeats, one after the other
//   repeat    an atom, then perhaps one of * + ? {n,m}
//   atom      a code point, a set, an assertion, a group
#include "ir/ops/strings/regex.h"

#include <algorithm>

#include "ir/base/text.h"
#include "ir/base/utf8.h"

namespace weftc {

namespace {

constexpr int kMostRepeats = 1000;  // RE2's limit, for nested ones together
constexpr int kMostDepth = 200;

struct Flags {
  bool ignores_case = false, dot_is_all = false, has_lines = false;
};

class RegexParser {
 public:
  RegexParser(std::u32string text, RegexFault& fault) : text_(std::move(text)), fault_(fault) {}

  bool parse(Regex& pattern) {
    if (!choice(pattern, 0)) return false;
    return at_end() || fail("has a ')' without a '('");
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char32_t peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : U'\0'; }
  bool next_is(std::u32string_view wanted) const { return std::u32string_view(text_).substr(at_).starts_with(wanted); }
  bool eat(std::u32string_view wanted) {
    if (!next_is(wanted)) return false;
    at_ += wanted.size();
    return true;
  }
  bool fail(std::string what) { return fault_ = {false, std::move(what)}, false; }
  bool lacks(std::string what) { return fault_ = {true, std::move(what)}, false; }

  bool choice(Regex& pattern, int depth);
  bool sequence(Regex& pattern, int depth);
  bool repeated(Regex& pattern, int depth);
  bool atom(Regex& pattern, int depth);
  bool group(Regex& pattern, int depth);
  bool flags();
  bool escape(Regex& pattern);
  std::optional<PointSet> named_set();
  bool literal(Regex& pattern, PointSet set);
  bool escaped_point(char32_t& point);
  bool digits(int base, size_t most, char32_t& number);
  bool set(Regex& pattern);
  bool set_item(PointSet& into);
  bool set_point(char32_t& point);
  bool counts(int& least, int& most);
  bool number(int& value);

  std::u32string text_;
  size_t at_ = 0;
  Flags flags_;
  bool is_quoted_ = false;  // between \Q and \E
  RegexFault& fault_;
};

bool RegexParser::choice(Regex& pattern, int depth) {
  if (depth > kMostDepth) return lacks("has groups more than 200 deep");
  Regex made{.kind = Regex::Kind::Choice};
  do
    if (!sequence(made.parts.emplace_back(), depth)) return false;
  while (eat(U"|"));
  pattern = made.parts.size() == 1 ? Regex(made.parts[0]) : std::move(made);
  return true;
}

bool RegexParser::sequence(Regex& pattern, int depth) {
  pattern.kind = Regex::Kind::Sequence;
  while (!at_end()) {
    if (!is_quoted_ && (peek() == U'|' || peek() == U')')) break;
    if (is_quoted_ ? eat(U"\\E") : eat(U"\\Q")) {
      is_quoted_ = !is_quoted_;
      continue;
    }
    if (!repeated(pattern.parts.emplace_back(), depth)) return false;
  }
  return true;
}

/// Product of the nested repetitions with the largest product in a tree.
int repeats_of(const Regex& pattern) {
  int most = 1;
  for (const Regex& part : pattern.parts) most = std::max(most, repeats_of(part));
  return pattern.kind == Regex::Kind::Repeat ? most * std::max({1, pattern.least, pattern.most}) : most;
}

bool RegexParser::repeated(Regex& pattern, int depth) {
  if (is_quoted_) {
    const char32_t point = text_[at_++];
    if (!literal(pattern, {{point, point}})) return false;
    is_quoted_ = !eat(U"\\E");
    if (is_quoted_) return true;
  } else if (!atom(pattern, depth)) {
    return false;
  }
  int least = 0, most = -1;
  if (!counts(least, most)) return fault_.what.empty();
  eat(U"?");  // lazy; has no effect here
  Regex made{.kind = Regex::Kind::Repeat, .parts = {std::move(pattern)}, .least = least, .most = most};
  pattern = std::move(made);
  if (repeats_of(pattern) > kMostRepeats) return fail(format("repeats a part more than {} times", kMostRepeats));
  int again = 0;
  const size_t at = at_;
  if (counts(again, again)) return at_ = at, fail("repeats a repetition: put it in parentheses");
  return fault_.what.empty();
}

/// Parses the sign of a repetition. False without one; the fault then says whether the sign was wrong.
bool RegexParser::counts(int& least, int& most) {
  if (eat(U"*")) return least = 0, most = -1, true;
  if (eat(U"+")) return least = 1, most = -1, true;
  if (eat(U"?")) return least = 0, most = 1, true;
  const size_t at = at_;
  if (!eat(U"{")) return false;
  int from = 0, to = -1;
  bool is_count = number(from);
  if (is_count && eat(U","))
    is_count = next_is(U"}") || number(to);
  else
    to = from;
  if (!is_count || !eat(U"}")) return at_ = at, false;  // an ordinary '{'
  if (from > kMostRepeats || to > kMostRepeats || (to >= 0 && from > to))
    return fail("has a repetition {n,m} that is not in order or above 1000");
  return least = from, most = to, true;
}

bool RegexParser::number(int& value) {
  const size_t first = at_;
  for (value = 0; peek() >= U'0' && peek() <= U'9'; ++at_)
    value = std::min(value * 10 + static_cast<int>(peek() - U'0'), kMostRepeats + 1);
  return at_ > first;
}

bool RegexParser::literal(Regex& pattern, PointSet set) {
  pattern.kind = Regex::Kind::Set;
  if (flags_.ignores_case) {
    const std::optional<PointSet> both = without_case(std::move(set));
    if (!both) return lacks("ignores the case of letters beyond ASCII");
    set = *both;
  }
  pattern.set = sorted_set(std::move(set));
  return true;
}

bool RegexParser::atom(Regex& pattern, int depth) {
  const auto asserts = [&](Assertion assertion) {
    pattern.kind = Regex::Kind::Assert, pattern.assertion = assertion;
    return true;
  };
  if (next_is(U"(")) return group(pattern, depth);
  if (next_is(U"[")) return set(pattern);
  if (next_is(U"\\")) return escape(pattern);
  if (eat(U"^")) return asserts(flags_.has_lines ? Assertion::LineBegin : Assertion::TextBegin);
  if (eat(U"$")) return asserts(flags_.has_lines ? Assertion::LineEnd : Assertion::TextEnd);
  if (eat(U".")) {
    pattern.kind = Regex::Kind::Set;
    pattern.set = flags_.dot_is_all ? complement({}) : complement({{U'\n', U'\n'}});
    return true;
  }
  if (peek() == U'*' || peek() == U'+' || peek() == U'?') return fail("repeats nothing");
  const char32_t point = text_[at_++];
  return literal(pattern, {{point, point}});
}

/// ( ), (?: ), (?P<name> ), (?flags: ), or (?flags) for what follows.
bool RegexParser::group(Regex& pattern, int depth) {
  at_ += 1;
  const Flags around = flags_;
  if (next_is(U"?P<") || next_is(U"?<")) {
    const size_t end = text_.find(U'>', at_);
    if (peek(2) == U'=' || peek(2) == U'!') return fail("looks behind, which RE2 has not");
    if (end == std::u32string::npos) return fail("has a group whose name does not end");
    at_ = end + 1;
  } else if (eat(U"?")) {
    if (peek() == U'=' || peek() == U'!') return fail("looks ahead, which RE2 has not");
    if (!flags()) return false;
    if (eat(U")")) return true;  // flags hold to the end of the enclosing group
    if (!eat(U":")) return fail("has a group '(?' of an unknown kind");
  }
  if (!choice(pattern, depth + 1)) return false;
  flags_ = around;
  return eat(U")") || fail("has a '(' without a ')'");
}

bool RegexParser::flags() {
  for (bool is_set = true;; ++at_) {
    switch (peek()) {
      case U'i':
        flags_.ignores_case = is_set;
        break;
      case U's':
        flags_.dot_is_all = is_set;
        break;
      case U'm':
        flags_.has_lines = is_set;
        break;
      case U'U':  // whether repetitions take much or little
        break;
      case U'-':
        if (!is_set) return fail("has flags with two '-'");
        is_set = false;
        break;
      default:
        return true;
    }
  }
}

/// The set that an escaped letter names, if it names one.
std::optional<PointSet> RegexParser::named_set() {
  if (!next_is(U"\\") || peek(1) >= 0x80) return {};
  const auto letter = static_cast<char>(peek(1));
  const bool is_capital = letter >= 'A' && letter <= 'Z';
  std::optional<PointSet> named = escaped_set(static_cast<char>(is_capital ? letter + 32 : letter));
  if (!named) return {};
  at_ += 2;
  if (flags_.ignores_case) named = without_case(*named);
  return is_capital ? complement(*named) : named;
}

/// An assertion, a named set or a code point after a backslash.
bool RegexParser::escape(Regex& pattern) {
  struct Row {
    char32_t letter;
    Assertion assertion;
  };
  static constexpr Row kAssertions[] = {{U'A', Assertion::TextBegin},
                                        {U'z', Assertion::TextEnd},
                                        {U'b', Assertion::WordEdge},
                                        {U'B', Assertion::NoWordEdge}};
  for (const Row& row : kAssertions)
    if (peek(1) == row.letter) {
      at_ += 2;
      pattern.kind = Regex::Kind::Assert, pattern.assertion = row.assertion;
      return true;
    }
  if (peek(1) == U'C') return lacks("has a '\\C', a byte of any value");
  if (const std::optional<PointSet> named = named_set()) {
    pattern.kind = Regex::Kind::Set, pattern.set = *named;
    return true;
  }
  char32_t point = 0;
  return escaped_point(point) && literal(pattern, {{point, point}});
}

bool RegexParser::digits(int base, size_t most, char32_t& number) {
  const size_t first = at_;
  for (number = 0; at_ < first + most; ++at_) {
    const char32_t c = peek();
    const int digit = c >= U'0' && c <= U'9'   ? static_cast<int>(c - U'0')
                      : c >= U'a' && c <= U'f' ? static_cast<int>(c - U'a') + 10
                      : c >= U'A' && c <= U'F' ? static_cast<int>(c - U'A') + 10
                                               : base;
    if (digit >= base) break;
    number = number * static_cast<char32_t>(base) + static_cast<char32_t>(digit);
  }
  return at_ > first && number <= 0x10ffff;
}

bool RegexParser::escaped_point(char32_t& point) {
  static constexpr std::u32string_view kLetters = U"aftnrv", kControls = U"\a\f\t\n\r\v";
  at_ += 1;
  const char32_t c = peek();
  if (at_end()) return fail("ends with a backslash");
  if (c == U'p' || c == U'P') return lacks("has a class of Unicode, '\\p'");
  if (const size_t control = kLetters.find(c); control != std::u32string_view::npos)
    return point = kControls[control], ++at_, true;
  if (c == U'x') {
    at_ += 1;
    if (eat(U"{")) return (digits(16, 8, point) && eat(U"}")) || fail("has a '\\x{' that is no code point");
    const size_t first = at_;
    return (digits(16, 2, point) && at_ == first + 2) || fail("has a '\\x' without two digits");
  }
  // One digit refers to a group, which RE2 does not support; several digits are octal.
  const bool is_octal = c == U'0' || (c >= U'1' && c <= U'7' && peek(1) >= U'0' && peek(1) <= U'7');
  if (is_octal) return digits(8, 3, point);
  const bool is_word = (c >= U'0' && c <= U'9') || (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') || c == U'_';
  if (is_word || c >= 0x80) return fail("has a backslash before what has no meaning with it");
  return point = c, ++at_, true;
}

/// [a-z], [^a-z]; a ']' in first position belongs to the set.
bool RegexParser::set(Regex& pattern) {
  at_ += 1;
  const bool is_others = eat(U"^");
  PointSet found;
  for (bool is_first = true; is_first || !next_is(U"]"); is_first = false) {
    if (at_end()) return fail("has a '[' without a ']'");
    if (!set_item(found)) return false;
  }
  at_ += 1;
  // The complement is taken after the other case of letters is added.
  if (!literal(pattern, std::move(found))) return false;
  if (is_others) pattern.set = complement(pattern.set);
  return true;
}

bool RegexParser::set_item(PointSet& into) {
  const auto add = [&](const PointSet& set) { into.insert(into.end(), set.begin(), set.end()); };
  if (next_is(U"[:")) {
    const size_t end = text_.find(U":]", at_);
    const bool is_others = peek(2) == U'^';
    if (end == std::u32string::npos) return fail("has a '[:' without a ':]'");
    const size_t first = at_ + 2 + (is_others ? 1 : 0);
    const std::string name =
        end < first ? "" : utf8_of(std::u32string_view(text_).substr(first, end - first)).value_or("");
    const std::optional<PointSet> named = posix_set(name);
    if (!named) return fail("names an unknown set '" + printable(name) + "'");
    add(is_others ? complement(*named) : *named);
    at_ = end + 2;
    return true;
  }
  if (const std::optional<PointSet> named = named_set()) return add(*named), true;
  char32_t first = 0, last = 0;
  if (!set_point(first)) return false;
  last = first;
  if (next_is(U"-") && peek(1) != U']' && peek(1) != U'\0') {
    at_ += 1;
    if (!set_point(last)) return false;
  }
  if (last < first) return fail("has a range whose end is before its beginning");
  into.push_back({first, last});
  return true;
}

bool RegexParser::set_point(char32_t& point) {
  if (next_is(U"\\")) return escaped_point(point);
  if (at_end()) return fail("has a '[' without a ']'");
  return point = text_[at_++], true;
}

}  // namespace

bool parse_regex(std::string_view text, Regex& pattern, RegexFault& fault) {
  const std::optional<std::u32string> points = utf32_of(text);
  if (!points) return fault = {false, "is no UTF-8"}, false;
  return RegexParser(*points, fault).parse(pattern);
}

}  // namespace weftc
