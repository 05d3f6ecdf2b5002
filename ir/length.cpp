// Arithmetic of lengths. Terms are sorted by degree and then by text, which makes the form canonical. Bounds come from
// the bounds of the symbols.
#include "ir/length.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "ir/base/check.h"
#include "ir/base/text.h"

namespace weftc {

/// Numbers are clamped here: far above any length, far below overflow.
constexpr int64_t kFar = int64_t{1} << 60;

static int64_t cut(__int128 value) {
  return static_cast<int64_t>(std::clamp<__int128>(value, -__int128{kFar}, __int128{kFar}));
}

namespace {
struct Interval {
  int64_t low, high;
};

Interval times(const Interval& a, const Interval& b) {
  const int64_t ends[] = {cut(__int128{a.low} * b.low), cut(__int128{a.low} * b.high), cut(__int128{a.high} * b.low),
                          cut(__int128{a.high} * b.high)};
  return {*std::min_element(std::begin(ends), std::end(ends)), *std::max_element(std::begin(ends), std::end(ends))};
}

bool is_division(const LengthSymbol& symbol) {
  return symbol.kind == LengthSymbol::Kind::Quotient || symbol.kind == LengthSymbol::Kind::Remainder;
}

/// "h / 2 * w", "b * (h / 2)": products and divisions are left-associative.
std::string factors_text(const std::vector<LengthSymbolPtr>& factors) {
  std::string text;
  for (const LengthSymbolPtr& factor : factors) {
    if (text.empty())
      text = factor->text;
    else
      text += is_division(*factor) ? " * (" + factor->text + ")" : " * " + factor->text;
  }
  return text;
}

/// The text of a length as an operand of a division.
std::string operand_text(const Length& length) {
  const std::vector<Length::Term>& terms = length.terms();
  const bool is_symbol = terms.size() == 1 && terms[0].coefficient == 1 && terms[0].factors.size() == 1;
  const bool is_plain = length.is_constant() || (is_symbol && !is_division(*terms[0].factors[0]));
  return is_plain ? length.text() : "(" + length.text() + ")";
}

/// Higher degrees first, then by text; the constant is last.
bool is_before(const Length::Term& a, const Length::Term& b) {
  if (a.factors.size() != b.factors.size()) return a.factors.size() > b.factors.size();
  return factors_text(a.factors) < factors_text(b.factors);
}

std::string terms_text(const std::vector<Length::Term>& terms) {
  std::string text;
  for (const Length::Term& term : terms) {
    const int64_t size = term.coefficient < 0 ? -term.coefficient : term.coefficient;
    if (term.coefficient < 0)
      text += text.empty() ? "-" : " - ";
    else if (!text.empty())
      text += " + ";
    text += factors_text(term.factors);
    if (term.factors.empty())
      text += std::to_string(size);
    else if (size != 1)
      text += " * " + std::to_string(size);
  }
  return text.empty() ? "0" : text;
}

Interval range_of_terms(const std::vector<Length::Term>& terms) {
  __int128 low = 0, high = 0;
  for (const Length::Term& term : terms) {
    Interval range{term.coefficient, term.coefficient};
    for (const LengthSymbolPtr& factor : term.factors) range = times(range, {factor->low, factor->high});
    low += range.low, high += range.high;
  }
  return {cut(low), cut(high)};
}

/// Sorts terms, adds up equal ones, and drops those with a coefficient of 0.
std::vector<Length::Term> canonical(std::vector<Length::Term> terms) {
  std::sort(terms.begin(), terms.end(), is_before);
  std::vector<Length::Term> kept;
  for (Length::Term& term : terms) {
    if (!kept.empty() && factors_text(kept.back().factors) == factors_text(term.factors))
      kept.back().coefficient = cut(__int128{kept.back().coefficient} + term.coefficient);
    else
      kept.push_back(std::move(term));
    if (kept.back().coefficient == 0) kept.pop_back();
  }
  return kept;
}

Length::Term product(const Length::Term& a, const Length::Term& b) {
  Length::Term made{a.factors, cut(__int128{a.coefficient} * b.coefficient)};
  made.factors.insert(made.factors.end(), b.factors.begin(), b.factors.end());
  std::sort(made.factors.begin(), made.factors.end(),
            [](const LengthSymbolPtr& x, const LengthSymbolPtr& y) { return x->text < y->text; });
  return made;
}

/// a / b where b's factors are among a's and its coefficient divides.
std::optional<Length::Term> quotient_of(const Length::Term& a, const Length::Term& b) {
  if (a.coefficient % b.coefficient) return {};
  Length::Term made{a.factors, a.coefficient / b.coefficient};
  for (const LengthSymbolPtr& factor : b.factors) {
    const auto at = std::find_if(made.factors.begin(), made.factors.end(),
                                 [&](const LengthSymbolPtr& own) { return own->text == factor->text; });
    if (at == made.factors.end()) return {};
    made.factors.erase(at);
  }
  return made;
}
}  // namespace

struct Length::Form {
  std::vector<Term> terms;
  std::string text;
  Interval range;
};

Length::Length(std::vector<Term> terms) {
  terms = canonical(std::move(terms));
  std::string text = terms_text(terms);
  const Interval range = range_of_terms(terms);
  form_ = std::make_shared<const Form>(Form{std::move(terms), std::move(text), range});
}

Length::Length(int64_t constant) : Length(std::vector<Term>{{{}, cut(constant)}}) {}

Length::Length(LengthSymbolPtr symbol) : Length(std::vector<Term>{{{std::move(symbol)}, 1}}) {}

static Length length_of_symbol(LengthSymbol::Kind kind, std::string text, const Interval& range,
                               std::vector<Length> operands) {
  if (range.low == range.high) return range.low;
  return Length(std::make_shared<const LengthSymbol>(
      LengthSymbol{kind, std::move(text), range.low, range.high, std::move(operands)}));
}

/// Whether a name can be written in a text unquoted.
static bool is_word(const std::string& name) {
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
  return std::all_of(name.begin(), name.end(), is_letter) && !name.empty() && (name[0] < '0' || name[0] > '9');
}

Length Length::named(const std::string& name, int64_t high) {
  return length_of_symbol(LengthSymbol::Kind::Named, is_word(name) ? name : quote(name), {0, high}, {});
}

bool Length::is_constant() const {
  return form_->terms.empty() || (form_->terms.size() == 1 && form_->terms[0].factors.empty());
}

int64_t Length::constant() const {
  WEFT_CHECK(is_constant(), "the length '" + form_->text + "' is no constant");
  return form_->terms.empty() ? 0 : form_->terms[0].coefficient;
}

int64_t Length::low() const { return form_->range.low; }
int64_t Length::high() const { return form_->range.high; }
const std::string& Length::text() const { return form_->text; }
const std::vector<Length::Term>& Length::terms() const { return form_->terms; }

Length Length::operator+(const Length& other) const {
  std::vector<Term> terms = form_->terms;
  terms.insert(terms.end(), other.form_->terms.begin(), other.form_->terms.end());
  return Length(std::move(terms));
}

Length Length::operator-(const Length& other) const { return *this + other * -1; }

Length Length::operator*(const Length& other) const {
  std::vector<Term> terms;
  for (const Term& a : form_->terms)
    for (const Term& b : other.form_->terms) terms.push_back(product(a, b));
  return Length(std::move(terms));
}

bool Length::operator==(const Length& other) const { return form_ == other.form_ || form_->text == other.form_->text; }

std::string text_of(const std::vector<Length>& lengths) {
  std::string text;
  for (const Length& length : lengths) text += (text.empty() ? "" : ", ") + length.text();
  return "[" + text + "]";
}

std::optional<Length> exact_quotient(const Length& a, const Length& b) {
  if (b.terms().empty()) return {};
  Length rest = a, quotient;
  // The order of terms is not a monomial order in the algebraic sense, so the loop may not end by itself.
  for (int step_count = 0; !rest.terms().empty(); ++step_count) {
    constexpr int kMostSteps = 64;
    if (step_count == kMostSteps) return {};
    const std::optional<Length::Term> next = quotient_of(rest.terms().front(), b.terms().front());
    if (!next) return {};
    Length step = next->coefficient;
    for (const LengthSymbolPtr& factor : next->factors) step = step * Length(factor);
    quotient = quotient + step;
    rest = rest - step * b;
  }
  return quotient;
}

static int64_t floor_of(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/// Splits a = by * quotient + rest term by term. Coefficients of the rest are at least 0 and below `by`. Returns both
/// parts.
static std::pair<Length, Length> divided_terms(const Length& a, int64_t by) {
  Length multiple, rest;
  for (const Length::Term& term : a.terms()) {
    Length product = 1;
    for (const LengthSymbolPtr& factor : term.factors) product = product * Length(factor);
    const int64_t whole = floor_of(term.coefficient, by);
    multiple = multiple + product * whole, rest = rest + product * (term.coefficient - whole * by);
  }
  return {multiple, rest};
}

/// If `a` is a quotient n / k plus a number, returns both: a quotient of it is a quotient of n.
static std::optional<std::pair<LengthSymbolPtr, int64_t>> quotient_and_number(const Length& a) {
  const std::vector<Length::Term>& terms = a.terms();
  if (terms.empty() || terms.size() > 2 || (terms.size() == 2 && !terms[1].factors.empty())) return {};
  if (terms[0].factors.size() != 1 || terms[0].coefficient != 1) return {};
  const LengthSymbolPtr& symbol = terms[0].factors[0];
  if (symbol->kind != LengthSymbol::Kind::Quotient || !symbol->operands[1].is_constant()) return {};
  return std::pair(symbol, terms.size() == 2 ? terms[1].coefficient : 0);
}

/// Simplifies a / by, so that equal quotients have one form: (n - 1) / 4 + 1 is (n + 3) / 4, and ((n + 1) / 2 + 1) / 2
/// too. Returns nothing if it has that form already.
static std::optional<Length> simpler_quotient(const Length& a, int64_t by) {
  const auto [multiple, rest] = divided_terms(a, by);
  if (!(multiple == 0) && rest.low() >= 0) {
    const std::optional<Length> quotient = floor_quotient(rest, by);
    return quotient ? std::optional(multiple + *quotient) : std::nullopt;
  }
  const auto inner = quotient_and_number(a);
  if (!inner) return {};
  const auto& [symbol, number] = *inner;
  const int64_t divisor = symbol->operands[1].constant();
  return floor_quotient(symbol->operands[0] + number * divisor, divisor * by);
}

/// The greatest common divisor of all coefficients; 1 without coefficients.
static int64_t common_divisor(const Length& a, const Length& b) {
  int64_t divisor = 0;
  for (const Length* each : {&a, &b})
    for (const Length::Term& term : each->terms()) divisor = std::gcd(divisor, term.coefficient);
  return std::max<int64_t>(divisor, 1);
}

std::optional<Length> floor_quotient(const Length& a, const Length& b) {
  if (std::optional<Length> exact = exact_quotient(a, b)) return exact;
  if (a.low() < 0 || b.low() < 1) return {};
  if (const int64_t divisor = common_divisor(a, b); divisor > 1)
    return floor_quotient(*exact_quotient(a, divisor), *exact_quotient(b, divisor));
  if (b.is_constant())
    if (std::optional<Length> simpler = simpler_quotient(a, b.constant())) return simpler;
  const Interval range{a.low() / b.high(), a.high() / b.low()};
  return length_of_symbol(LengthSymbol::Kind::Quotient, operand_text(a) + " / " + operand_text(b), range, {a, b});
}

std::optional<Length> remainder_of(const Length& a, const Length& b) {
  if (exact_quotient(a, b)) return Length();
  if (a.low() < 0 || b.low() < 1) return {};
  if (a.high() < b.low()) return a;
  if (const int64_t divisor = common_divisor(a, b); divisor > 1)
    return *remainder_of(*exact_quotient(a, divisor), *exact_quotient(b, divisor)) * divisor;
  if (b.is_constant())
    if (const auto [multiple, rest] = divided_terms(a, b.constant()); !(multiple == 0) && rest.low() >= 0)
      return remainder_of(rest, b);
  const Interval range{0, std::min(a.high(), b.high() - 1)};
  return length_of_symbol(LengthSymbol::Kind::Remainder, operand_text(a) + " % " + operand_text(b), range, {a, b});
}

/// Simplifies b in min(1, b), which says whether b is positive. A term min(1, x) is dropped if the rest of b is at
/// least x: the rest is then positive whenever x is.
static Length without_implied_terms(const Length& b) {
  for (const Length::Term& term : b.terms()) {
    if (term.factors.size() != 1 || term.coefficient < 0) continue;
    const LengthSymbol& symbol = *term.factors[0];
    const bool is_sign = symbol.kind == LengthSymbol::Kind::Minimum && symbol.operands[0] == 1;
    const Length rest = b - Length(term.factors[0]) * term.coefficient;
    if (is_sign && (rest - symbol.operands[1]).low() >= 0) return without_implied_terms(rest);
  }
  return b;
}

Length minimum(const Length& a, const Length& b) {
  if ((b - a).low() >= 0) return a;
  if ((a - b).low() >= 0) return b;
  if (b == 1) return minimum(b, a);
  if (a == 1)
    if (const Length rest = without_implied_terms(b); !(rest == b)) return minimum(a, rest);
  const Interval range{std::min(a.low(), b.low()), std::min(a.high(), b.high())};
  return length_of_symbol(LengthSymbol::Kind::Minimum, "min(" + a.text() + ", " + b.text() + ")", range, {a, b});
}

Length maximum(const Length& a, const Length& b) {
  if ((a - b).low() >= 0) return a;
  if ((b - a).low() >= 0) return b;
  const Interval range{std::max(a.low(), b.low()), std::max(a.high(), b.high())};
  return length_of_symbol(LengthSymbol::Kind::Maximum, "max(" + a.text() + ", " + b.text() + ")", range, {a, b});
}

static std::optional<Length> with_least(const LengthSymbolPtr& symbol, const std::map<std::string, int64_t>& least) {
  if (symbol->kind == LengthSymbol::Kind::Named) {
    const auto found = least.find(symbol->text);
    if (found == least.end()) return Length(symbol);
    LengthSymbol raised = *symbol;
    raised.low = found->second;
    return Length(std::make_shared<const LengthSymbol>(std::move(raised)));
  }
  const std::optional<Length> a = with_least(symbol->operands[0], least), b = with_least(symbol->operands[1], least);
  if (!a || !b) return {};
  switch (symbol->kind) {
    case LengthSymbol::Kind::Quotient:
      return floor_quotient(*a, *b);
    case LengthSymbol::Kind::Remainder:
      return remainder_of(*a, *b);
    case LengthSymbol::Kind::Minimum:
      return minimum(*a, *b);
    default:
      return maximum(*a, *b);
  }
}

std::optional<Length> with_least(const Length& length, const std::map<std::string, int64_t>& least) {
  Length sum;
  for (const Length::Term& term : length.terms()) {
    Length product = term.coefficient;
    for (const LengthSymbolPtr& factor : term.factors) {
      const std::optional<Length> each = with_least(factor, least);
      if (!each) return {};
      product = product * *each;
    }
    sum = sum + product;
  }
  return sum;
}

}  // namespace weftc
