// Strings of programs. Cutting and joining UTF-8 at the bytes of other UTF-8 gives UTF-8, so that only letters are
// decoded.
#include "weft/strings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "weft/code_points.h"

namespace weft {

String string_of(std::string_view bytes) {
  if (bytes.size() > size_t(String::kMost))
    throw BadString{"a string would have " + std::to_string(bytes.size()) + " bytes, more than the " +
                    std::to_string(String::kMost) + " that there is room for"};
  String out = {};
  out.length = uint8_t(bytes.size());
  if (!bytes.empty()) memcpy(out.bytes, bytes.data(), bytes.size());
  return out;
}

String concat(const String& a, const String& b) { return string_of(std::string(view_of(a)).append(view_of(b))); }

namespace {

/// The text before the next delimiter, and the text after it. `is_last`: no delimiter follows.
struct Cut {
  std::string_view piece, rest;
  bool is_last;
};

constexpr std::string_view kWhite = " \t\n\v\f\r";

std::string_view without_white_in_front(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kWhite), text.size()));
}

/// The pieces of a string from left to right. Between white space there may be none; between delimiters there is one.
class Pieces {
 public:
  Pieces(const String& string, const String& delimiter, int64_t most)
      : rest_(view_of(string)), delimiter_(view_of(delimiter)), most_(most) {
    if (delimiter_.empty()) rest_ = without_white_in_front(rest_.substr(0, rest_.find_last_not_of(kWhite) + 1));
    more_ = !delimiter_.empty() || !rest_.empty();
  }

  bool more() const { return more_; }
  /// The next piece.
  std::string_view take() {
    const Cut cut = cuts_ == most_ ? Cut{rest_, {}, true} : delimiter_.empty() ? at_white() : at_delimiter();
    ++cuts_;
    rest_ = cut.rest;
    more_ = !cut.is_last;
    return cut.piece;
  }

 private:
  Cut at_delimiter() const {
    const size_t end = rest_.find(delimiter_);
    if (end == std::string_view::npos) return {rest_, {}, true};
    return {rest_.substr(0, end), rest_.substr(end + delimiter_.size()), false};
  }
  Cut at_white() const {
    const size_t end = std::min(rest_.find_first_of(kWhite), rest_.size());
    const std::string_view after = without_white_in_front(rest_.substr(end));
    return {rest_.substr(0, end), after, after.empty()};
  }

  std::string_view rest_, delimiter_;
  int64_t most_, cuts_ = 0;
  bool more_ = true;
};

}  // namespace

int64_t piece_count(const String& string, const String& delimiter, int64_t most) {
  int64_t count = 0;
  for (Pieces pieces(string, delimiter, most); pieces.more(); pieces.take()) ++count;
  return count;
}

String piece(const String& string, int64_t number, const String& delimiter, int64_t most) {
  for (Pieces pieces(string, delimiter, most); pieces.more();)
    if (const std::string_view each = pieces.take(); number-- == 0) return string_of(each);
  return {};
}

String change_case(const String& string, const int32_t* numbers, int64_t count) {
  const auto* const ranges = reinterpret_cast<const LetterRange*>(numbers);
  std::string out;
  for (CodePoints each(view_of(string)); each.more(); each.next()) {
    const auto point = int32_t(each.point());
    const LetterRange* const range = std::lower_bound(
        ranges, ranges + count, point, [](const LetterRange& a, int32_t wanted) { return a.last < wanted; });
    const bool is_letter =
        range != ranges + count && point >= range->first && (point - range->first) % range->step == 0;
    char bytes[4];
    out.append(bytes, size_t(encode(char32_t(is_letter ? point + range->delta : point), bytes)));
  }
  return string_of(out);
}

int64_t find_string(const String& string, const String* list, int64_t count) {
  const String* const at = std::lower_bound(list, list + count, view_of(string),
                                            [](const String& a, std::string_view b) { return view_of(a) < b; });
  return at != list + count && *at == string ? at - list : count;
}

bool is_accepted(const String& string, const int32_t* table) {
  constexpr int64_t kRow = 257;
  int64_t state = 0;
  for (const char byte : view_of(string)) state = table[state * kRow + uint8_t(byte)];
  return table[state * kRow + kRow - 1] != 0;
}

namespace detail {

template <class Number>
static String text_of(Number value) {
  char text[32];
  return string_of({text, size_t(std::to_chars(text, text + sizeof text, value).ptr - text)});
}
String integer_text(int64_t value) { return text_of(value); }
String integer_text(uint64_t value) { return text_of(value); }

/// The digits of a finite number without a point, the first one not 0, and the power of ten of that one.
struct Digits {
  std::string digits;
  int exponent;
};
template <class Real>
static Digits digits_of(Real magnitude) {
  char text[64];
  const char* const end = std::to_chars(text, text + sizeof text, magnitude, std::chars_format::scientific).ptr;
  const char* const mark = std::find(static_cast<const char*>(text), end, 'e');
  std::string digits(1, text[0]);
  if (mark > text + 2) digits.append(static_cast<const char*>(text) + 2, mark);
  int exponent = 0;
  std::from_chars(mark + (mark[1] == '+' ? 2 : 1), end, exponent);
  return {digits, exponent};
}

/// As NumPy: in scientific notation below 1e-4 and from 1e16 on.
template <class Real>
static String real_string(Real value) {
  if (std::isnan(value)) return string_of("nan");
  const std::string sign = std::signbit(value) ? "-" : "";
  if (std::isinf(value)) return string_of(sign + "inf");
  if (value == 0) return string_of(sign + "0.0");
  const auto [digits, exponent] = digits_of(std::fabs(value));
  if (exponent < -4 || exponent >= 16) {
    const std::string power = std::to_string(std::abs(exponent));
    return string_of(sign + digits.substr(0, 1) + (digits.size() > 1 ? "." + digits.substr(1) : "") +
                     (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power);
  }
  if (exponent < 0) return string_of(sign + "0." + std::string(size_t(-exponent - 1), '0') + digits);
  const auto whole = size_t(exponent) + 1;
  if (digits.size() <= whole) return string_of(sign + digits + std::string(whole - digits.size(), '0') + ".0");
  return string_of(sign + digits.substr(0, whole) + "." + digits.substr(whole));
}
String real_text(float value) { return real_string(value); }
String real_text(double value) { return real_string(value); }

[[noreturn]] static void throw_no_number(std::string_view text) {
  throw BadString{"the string '" + std::string(text) + "' is no number of the type that it is cast to"};
}

/// True if all of the text is a number of this type.
template <class Number>
static bool reads(std::string_view text, Number& value) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

static bool is_word(std::string_view text, std::string_view word) {
  return std::equal(text.begin(), text.end(), word.begin(), word.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? char(a + 32) : a) == b; });
}

double real_of(const String& string) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::string_view text = view_of(string);
  if (is_word(text, "nan")) return std::numeric_limits<double>::quiet_NaN();
  if (is_word(text, "inf") || is_word(text, "+inf")) return kInfinity;
  if (is_word(text, "-inf")) return -kInfinity;
  double value = 0;
  const bool is_digital = !text.empty() && text.find_first_not_of("+-.0123456789eE") == std::string_view::npos;
  if (!is_digital || !reads(text, value)) throw_no_number(text);
  return value;
}

int64_t integer_of(const String& string) {
  int64_t value = 0;
  if (reads(view_of(string), value)) return value;
  const double real = std::trunc(real_of(string));
  if (!(real >= -0x1p63 && real < 0x1p63)) throw_no_number(view_of(string));
  return int64_t(real);
}

uint64_t unsigned_of(const String& string) {
  uint64_t value = 0;
  if (reads(view_of(string), value)) return value;
  const double real = std::trunc(real_of(string));
  if (!(real >= 0 && real < 0x1p64)) throw_no_number(view_of(string));
  return uint64_t(real);
}

}  // namespace detail

}  // namespace weft
