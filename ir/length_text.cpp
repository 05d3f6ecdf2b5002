// Operations on lengths beside arithmetic: finding and replacing names, evaluating, parsing. The grammar is that of
// Length::text:
//
//   sum = ["-"] product {("+" | "-") product}        product = factor {("*" | "/" | "%") factor}
//   factor = number | name | "(" sum ")" | ("min" | "max") "(" sum "," sum ")"
#include <algorithm>
#include <cctype>
#include <limits>

#include "ir/base/check.h"
#include "ir/base/text.h"
#include "ir/length.h"

namespace weftc {

const LengthSymbol* as_name(const Length& length) {
  if (length.terms().size() != 1) return nullptr;
  const Length::Term& term = length.terms()[0];
  const bool is_symbol = term.coefficient == 1 && term.factors.size() == 1;
  return is_symbol && term.factors[0]->kind == LengthSymbol::Kind::Named ? term.factors[0].get() : nullptr;
}

void for_each_name(const Length& length, const std::function<void(const LengthSymbolPtr&)>& f) {
  for (const Length::Term& term : length.terms())
    for (const LengthSymbolPtr& factor : term.factors) {
      if (factor->kind == LengthSymbol::Kind::Named) f(factor);
      for (const Length& operand : factor->operands) for_each_name(operand, f);
    }
}

void for_each_name(std::string_view text, const std::function<void(const std::string&)>& f) {
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (text[at] == '"') {
      while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
    } else if (is_letter(text[at])) {
      while (end < text.size() && is_letter(text[end])) ++end;
    }
    const bool is_function = end < text.size() && text[end] == '(';
    const bool is_name =
        text[at] == '"' || (is_letter(text[at]) && !std::isdigit(static_cast<unsigned char>(text[at])));
    if (is_name && !is_function) f(std::string(text.substr(at, end - at)));
    at = end;
  }
}

/// A function of two lengths; nothing if the divisor could be 0 or the dividend negative.
static std::optional<Length> function_of(LengthSymbol::Kind kind, const Length& a, const Length& b) {
  switch (kind) {
    case LengthSymbol::Kind::Quotient:
      return floor_quotient(a, b);
    case LengthSymbol::Kind::Remainder:
      return remainder_of(a, b);
    case LengthSymbol::Kind::Minimum:
      return minimum(a, b);
    case LengthSymbol::Kind::Maximum:
      return maximum(a, b);
    case LengthSymbol::Kind::Named:
      break;
  }
  return {};
}

Length substitute(const Length& length, const std::function<Length(const LengthSymbol&)>& of) {
  Length sum;
  for (const Length::Term& term : length.terms()) {
    Length product = term.coefficient;
    for (const LengthSymbolPtr& factor : term.factors) {
      if (factor->kind == LengthSymbol::Kind::Named) {
        product = product * of(*factor);
        continue;
      }
      const std::optional<Length> made =
          function_of(factor->kind, substitute(factor->operands[0], of), substitute(factor->operands[1], of));
      WEFT_CHECK(made, "the length '" + length.text() + "' has other bounds");
      product = product * *made;
    }
    sum = sum + product;
  }
  return sum;
}

std::optional<int64_t> number_of(const Length& length, const std::map<std::string, int64_t>& numbers) {
  int64_t sum = 0;
  for (const Length::Term& term : length.terms()) {
    int64_t product = term.coefficient;
    for (const LengthSymbolPtr& factor : term.factors) {
      if (factor->kind == LengthSymbol::Kind::Named) {
        const auto at = numbers.find(factor->text);
        if (at == numbers.end()) return {};
        product *= at->second;
        continue;
      }
      const std::optional<int64_t> a = number_of(factor->operands[0], numbers),
                                   b = number_of(factor->operands[1], numbers);
      if (!a || !b) return {};
      const std::optional<Length> made = function_of(factor->kind, *a, *b);
      if (!made) return {};
      product *= made->constant();
    }
    sum += product;
  }
  return sum;
}

namespace {

/// Recursive descent over the text.
class LengthReader {
 public:
  LengthReader(std::string_view text, const std::map<std::string, int64_t>& bounds) : text_(text), bounds_(bounds) {}

  std::optional<Length> whole() {
    std::optional<Length> length = sum();
    skip_blanks();
    return at_ == text_.size() ? length : std::nullopt;
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool accept(std::string_view sign) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }

  std::optional<Length> sum() {
    Length all;
    bool is_first = true;
    while (true) {
      const bool is_negative = accept("-");
      if (!is_negative && !accept("+") && !is_first) return all;
      const std::optional<Length> part = product();
      if (!part) return {};
      all = is_negative ? all - *part : all + *part;
      is_first = false;
    }
  }
  std::optional<Length> product() {
    std::optional<Length> all = factor();
    while (all) {
      const bool is_product = accept("*"), is_quotient = !is_product && accept("/");
      if (!is_product && !is_quotient && !accept("%")) break;
      const std::optional<Length> part = factor();
      if (!part) return {};
      using Kind = LengthSymbol::Kind;
      all = is_product ? *all * *part : function_of(is_quotient ? Kind::Quotient : Kind::Remainder, *all, *part);
    }
    return all;
  }
  std::optional<Length> factor() {
    if (depth_ == kDeepest) return {};
    if (accept("(")) return nested([&] { return group(); });
    if (accept("min(")) return nested([&] { return choice(LengthSymbol::Kind::Minimum); });
    if (accept("max(")) return nested([&] { return choice(LengthSymbol::Kind::Maximum); });
    skip_blanks();
    return at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) ? number() : name();
  }
  template <class Inner>
  std::optional<Length> nested(Inner inner) {
    ++depth_;
    std::optional<Length> made = inner();
    --depth_;
    return made;
  }
  /// Parses the rest of a group after its opening parenthesis.
  std::optional<Length> group() {
    std::optional<Length> inner = sum();
    return inner && accept(")") ? inner : std::nullopt;
  }
  std::optional<Length> choice(LengthSymbol::Kind kind) {
    const std::optional<Length> a = sum();
    if (!a || !accept(",")) return {};
    const std::optional<Length> b = sum();
    return b && accept(")") ? function_of(kind, *a, *b) : std::nullopt;
  }
  std::optional<Length> number() {
    int64_t value = 0;
    for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_) {
      if (value > std::numeric_limits<int64_t>::max() / 10 - 1) return {};
      value = value * 10 + (text_[at_] - '0');
    }
    return value;
  }
  /// The longest name at this position.
  std::optional<Length> name() {
    const std::pair<const std::string, int64_t>* found = nullptr;
    for (const auto& known : bounds_)
      if (text_.substr(at_).starts_with(known.first) && (!found || known.first.size() > found->first.size()))
        found = &known;
    if (!found) return {};
    at_ += found->first.size();
    std::string plain = found->first;
    if (plain[0] == '"' && !unquote(found->first, plain)) return {};
    return Length::named(plain, found->second);
  }

  static constexpr int kDeepest = 64;
  std::string_view text_;
  const std::map<std::string, int64_t>& bounds_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<Length> parse_length(std::string_view text, const std::map<std::string, int64_t>& bounds) {
  return LengthReader(text, bounds).whole();
}

}  // namespace weftc
