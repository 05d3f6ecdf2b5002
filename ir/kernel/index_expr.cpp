// Simplifies sums of digits. Every rule keeps the value for all variables in their ranges, and terms
// stand in an order of their text, by which expressions are compared.
#include "ir/kernel/index_expr.h"

#include <algorithm>
#include <numeric>

namespace weftc {

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

IndexExpr::IndexExpr(AtomPtr atom, int64_t coefficient) {
  if (atom->low == atom->high)
    constant_ = atom->low * coefficient;
  else if (coefficient)
    terms_.push_back({std::move(atom), coefficient});
}

int64_t IndexExpr::low() const {
  int64_t sum = constant_;
  for (const Term& t : terms_) sum += t.coefficient * (t.coefficient > 0 ? t.atom->low : t.atom->high);
  return sum;
}

int64_t IndexExpr::high() const {
  int64_t sum = constant_;
  for (const Term& t : terms_) sum += t.coefficient * (t.coefficient > 0 ? t.atom->high : t.atom->low);
  return sum;
}

std::string IndexExpr::text() const {
  // Large strides first: it reads as an address.
  std::vector<Term> ordered = terms_;
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Term& a, const Term& b) { return a.coefficient > b.coefficient; });
  std::string text;
  for (const Term& t : ordered) {
    const int64_t size = t.coefficient < 0 ? -t.coefficient : t.coefficient;
    if (t.coefficient < 0)
      text += text.empty() ? "-" : " - ";
    else if (!text.empty())
      text += " + ";
    text += t.atom->text;
    if (size != 1) text += " * " + std::to_string(size);
  }
  if (text.empty()) return std::to_string(constant_);
  if (constant_) text += (constant_ < 0 ? " - " : " + ") + std::to_string(constant_ < 0 ? -constant_ : constant_);
  return text;
}

IndexExpr IndexExpr::operator+(const IndexExpr& other) const {
  IndexExpr sum = *this;
  sum.constant_ += other.constant_;
  for (const Term& t : other.terms_) sum.add_term(t.atom, t.coefficient);
  return sum;
}

IndexExpr IndexExpr::operator*(int64_t factor) const {
  if (factor == 0) return 0;
  IndexExpr product = *this;
  product.constant_ *= factor;
  for (Term& t : product.terms_) t.coefficient *= factor;
  return product;
}

/// Two digits of one sum that stand side by side are one: c * (x / a % b) + c * b * (x / (a b) % d) = c * (x / a % (b
/// d)).
bool IndexExpr::combine(const AtomPtr& atom, int64_t coefficient) {
  const auto fits = [](const Atom& low, int64_t low_factor, const Atom& high, int64_t high_factor) {
    return low.modulus && high.divisor == low.divisor * low.modulus && high_factor == low_factor * low.modulus &&
           low.of.text() == high.of.text();
  };
  for (size_t i = 0; i < terms_.size(); ++i) {
    const Term other = terms_[i];
    if (!other.atom->is_digit()) continue;
    const bool as_low = fits(*atom, coefficient, *other.atom, other.coefficient);
    if (!as_low && !fits(*other.atom, other.coefficient, *atom, coefficient)) continue;
    const Atom &low = as_low ? *atom : *other.atom, &high = as_low ? *other.atom : *atom;
    const int64_t factor = as_low ? coefficient : other.coefficient;
    const IndexExpr merged = digit(low.of, low.divisor, high.modulus ? low.modulus * high.modulus : 0) * factor;
    terms_.erase(terms_.begin() + static_cast<int64_t>(i));
    *this = *this + merged;
    return true;
  }
  return false;
}

void IndexExpr::add_term(const AtomPtr& atom, int64_t coefficient) {
  const auto at = std::lower_bound(terms_.begin(), terms_.end(), atom->text,
                                   [](const Term& t, const std::string& text) { return t.atom->text < text; });
  if (at != terms_.end() && at->atom->text == atom->text) {
    at->coefficient += coefficient;
    if (at->coefficient == 0) {
      terms_.erase(at);
      return;
    }
    // A changed coefficient may let the digit join a neighbour.
    const Term changed = *at;
    if (changed.atom->is_digit()) {
      terms_.erase(at);
      if (!combine(changed.atom, changed.coefficient)) add_term(changed.atom, changed.coefficient);
    }
    return;
  }
  if (atom->is_digit() && combine(atom, coefficient)) return;
  const auto place = std::lower_bound(terms_.begin(), terms_.end(), atom->text,
                                      [](const Term& t, const std::string& text) { return t.atom->text < text; });
  terms_.insert(place, {atom, coefficient});
}

IndexExpr index_variable(std::string name, int64_t low, int64_t high, int64_t step) {
  auto atom = std::make_shared<Atom>();
  atom->text = std::move(name);
  atom->low = low, atom->high = high, atom->step = step;
  return IndexExpr(AtomPtr(std::move(atom)));
}

static AtomPtr digit_atom(const IndexExpr& of, int64_t divisor, int64_t modulus) {
  auto atom = std::make_shared<Atom>();
  const bool simple = of.terms().size() == 1 && of.constant() == 0 && of.terms()[0].coefficient == 1;
  atom->text = "(" + (simple ? of.text() : "(" + of.text() + ")");
  if (divisor != 1) atom->text += " / " + std::to_string(divisor);
  if (modulus) atom->text += " % " + std::to_string(modulus);
  atom->text += ")";
  atom->low = floor_div(of.low(), divisor), atom->high = floor_div(of.high(), divisor);
  if (modulus) atom->low = 0, atom->high = modulus - 1;
  atom->of = of, atom->divisor = divisor, atom->modulus = modulus;
  return atom;
}

namespace {
/// A sum as `multiple` (every term a multiple of `unit`) and the rest.
struct Parts {
  IndexExpr multiple, rest;
};
Parts split_by(const IndexExpr& expr, int64_t unit) {
  Parts parts;
  for (const IndexExpr::Term& t : expr.terms()) {
    const bool whole = t.coefficient * t.atom->step % unit == 0;
    (whole ? parts.multiple : parts.rest) = (whole ? parts.multiple : parts.rest) + IndexExpr(t.atom, t.coefficient);
  }
  const int64_t low = floor_div(expr.constant(), unit) * unit;
  parts.multiple = parts.multiple + low;
  parts.rest = parts.rest + (expr.constant() - low);
  return parts;
}
bool within(const IndexExpr& expr, int64_t end) { return expr.low() >= 0 && expr.high() < end; }

/// Units that could separate the terms of a sum: what each term shares with `whole`, larger first.
std::vector<int64_t> units_of(const IndexExpr& expr, int64_t whole) {
  std::vector<int64_t> units;
  for (const IndexExpr::Term& t : expr.terms()) units.push_back(std::gcd(t.coefficient * t.atom->step, whole));
  std::sort(units.rbegin(), units.rend());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  return units;
}

IndexExpr divide_terms(const IndexExpr& expr, int64_t divisor) {
  IndexExpr result = expr.constant() / divisor;
  for (const IndexExpr::Term& t : expr.terms()) result = result + IndexExpr(t.atom, t.coefficient / divisor);
  return result;
}
bool all_divisible(const IndexExpr& expr, int64_t divisor) {
  return expr.constant() % divisor == 0 && std::all_of(expr.terms().begin(), expr.terms().end(),
                                                       [&](const auto& t) { return t.coefficient % divisor == 0; });
}
}  // namespace

static IndexExpr quotient_of(const IndexExpr& expr, int64_t divisor) {
  if (divisor == 1 || within(expr, 1)) return divisor == 1 ? expr : IndexExpr(0);
  if (within(expr, divisor)) return 0;
  // Terms that the divisor divides leave; they must not make what stays negative.
  IndexExpr out, stays;
  for (const IndexExpr::Term& t : expr.terms()) {
    const bool whole = t.coefficient % divisor == 0;
    (whole ? out : stays) = (whole ? out : stays) + IndexExpr(t.atom, whole ? t.coefficient / divisor : t.coefficient);
  }
  const int64_t whole_constant = floor_div(expr.constant(), divisor);
  out = out + whole_constant;
  stays = stays + (expr.constant() - whole_constant * divisor);
  if (stays.low() < 0) out = 0, stays = expr;
  if (within(stays, divisor)) return out;
  for (int64_t unit : units_of(stays, divisor)) {
    if (unit == 1) break;
    const Parts parts = split_by(stays, unit);
    if (!within(parts.rest, unit) || parts.multiple.low() < 0) continue;
    if (all_divisible(parts.multiple, unit))
      return out + quotient_of(divide_terms(parts.multiple, unit), divisor / unit);
    stays = parts.multiple;
  }
  if (stays.terms().size() == 1 && stays.constant() == 0 && stays.terms()[0].coefficient == 1) {
    const Atom& inner = *stays.terms()[0].atom;
    // x / a / b = x / (a b), also under a modulus that b divides.
    if (inner.is_digit() && (!inner.modulus || inner.modulus % divisor == 0))
      return out + digit(inner.of, inner.divisor * divisor, inner.modulus ? inner.modulus / divisor : 0);
  }
  return out + IndexExpr(digit_atom(stays, divisor, 0));
}

static IndexExpr remainder_of(const IndexExpr& expr, int64_t modulus) {
  if (modulus == 1) return 0;
  if (within(expr, modulus)) return expr;
  IndexExpr stays;
  for (const IndexExpr::Term& t : expr.terms())
    if (t.coefficient * t.atom->step % modulus) stays = stays + IndexExpr(t.atom, t.coefficient);
  stays = stays + (expr.constant() - floor_div(expr.constant(), modulus) * modulus);
  if (stays.low() < 0) stays = expr;
  if (within(stays, modulus)) return stays;
  for (int64_t unit : units_of(stays, modulus)) {
    if (unit == 1) break;
    const Parts parts = split_by(stays, unit);
    if (!within(parts.rest, unit) || parts.multiple.low() < 0) continue;
    if (all_divisible(parts.multiple, unit))
      return remainder_of(divide_terms(parts.multiple, unit), modulus / unit) * unit + parts.rest;
    if (!parts.rest.is_constant()) return remainder_of(parts.multiple, modulus) + parts.rest;
  }
  if (stays.terms().size() == 1 && stays.constant() == 0 && stays.terms()[0].coefficient == 1) {
    const Atom& inner = *stays.terms()[0].atom;
    // (x / a % c) % b is one digit of x where b divides c.
    if (inner.is_digit() && (!inner.modulus || inner.modulus % modulus == 0))
      return IndexExpr(digit_atom(inner.of, inner.divisor, modulus));
  }
  return IndexExpr(digit_atom(stays, 1, modulus));
}

IndexExpr digit(const IndexExpr& expr, int64_t divisor, int64_t modulus) {
  const IndexExpr above = quotient_of(expr, divisor);
  return modulus ? remainder_of(above, modulus) : above;
}

IndexExpr linear_index(const IndexList& index, const std::vector<int64_t>& dims) {
  IndexExpr linear;
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0; stride *= dims[d]) linear = linear + index[d] * stride;
  return linear;
}

IndexList unravel(const IndexExpr& linear, const std::vector<int64_t>& dims) {
  IndexList index(dims.size());
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0; stride *= dims[d]) {
    const bool outermost = linear.high() < stride * dims[d];
    index[d] = dims[d] == 1 ? IndexExpr(0) : digit(linear, stride, outermost ? 0 : dims[d]);
  }
  return index;
}

static bool mentions(const IndexExpr& expr, const std::string& variable) {
  return std::any_of(expr.terms().begin(), expr.terms().end(), [&](const IndexExpr::Term& t) {
    return t.atom->is_digit() ? mentions(t.atom->of, variable) : t.atom->text == variable;
  });
}

Stride stride_of(const IndexExpr& expr, const std::string& variable) {
  Stride stride;
  for (const IndexExpr::Term& t : expr.terms()) {
    if (t.atom->is_digit())
      stride.affine &= !mentions(t.atom->of, variable);
    else if (t.atom->text == variable)
      stride.coefficient = t.coefficient;
  }
  return stride;
}

std::vector<AtomPtr> variables_of(const IndexExpr& expr) {
  std::vector<AtomPtr> found;
  for (const IndexExpr::Term& t : expr.terms()) {
    if (!t.atom->is_digit()) {
      found.push_back(t.atom);
      continue;
    }
    const std::vector<AtomPtr> inner = variables_of(t.atom->of);
    found.insert(found.end(), inner.begin(), inner.end());
  }
  return found;
}

IndexExpr substitute(const IndexExpr& expr, const std::string& variable, const IndexExpr& by) {
  IndexExpr result = expr.constant();
  for (const IndexExpr::Term& t : expr.terms()) {
    if (t.atom->is_digit())
      result = result + digit(substitute(t.atom->of, variable, by), t.atom->divisor, t.atom->modulus) * t.coefficient;
    else
      result = result + (t.atom->text == variable ? by * t.coefficient : IndexExpr(t.atom, t.coefficient));
  }
  return result;
}

}  // namespace weftc
