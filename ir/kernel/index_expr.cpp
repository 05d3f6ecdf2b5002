// Simplifies sums of digits. Every rule keeps the value for all variables in their ranges. Terms are sorted by their
// text, so that expressions can be compared.
#include "ir/kernel/index_expr.h"

#include <algorithm>
#include <numeric>

namespace weftc {

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

/// A length as a term of a sum, and such a term as a factor.
static AtomPtr atom_of(const RunLength& length) {
  auto atom = std::make_shared<Atom>();
  atom->text = length.name;
  atom->high = length.bound;
  atom->is_length = true;
  return atom;
}
static Scale scale_of(const Atom& length) { return Scale::length(length.text, length.high); }

IndexExpr::IndexExpr(AtomPtr atom, const Scale& scale) {
  if (scale.number == 0) return;
  if (atom->low == atom->high && !atom->is_length)
    *this = of(Scale(atom->low) * scale);
  else
    add_term(atom, scale);
}

IndexExpr IndexExpr::of(const Scale& scale) {
  if (scale.number == 0 || scale.is_number()) return scale.number;
  IndexExpr expr;
  expr.add_term(atom_of(scale.lengths[0]), {scale.number, {scale.lengths.begin() + 1, scale.lengths.end()}});
  return expr;
}

/// The lowest and highest value of a term.
static std::pair<int64_t, int64_t> range_of(const IndexExpr::Term& t) {
  const int64_t most = t.scale.high();
  const std::pair<int64_t, int64_t> ends = std::minmax(t.atom->low * most, t.atom->high * most);
  if (t.scale.is_number()) return ends;
  return {std::min<int64_t>(0, ends.first), std::max<int64_t>(0, ends.second)};  // a length may be 0
}

int64_t IndexExpr::low() const {
  int64_t sum = constant_;
  for (const Term& t : terms_) sum += range_of(t).first;
  return sum;
}

int64_t IndexExpr::high() const {
  int64_t sum = constant_;
  for (const Term& t : terms_) sum += range_of(t).second;
  return sum;
}

std::string IndexExpr::text() const {
  // Large strides first, as in an address.
  std::vector<Term> ordered = terms_;
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Term& a, const Term& b) { return a.scale.high() > b.scale.high(); });
  std::string text;
  for (const Term& t : ordered) {
    const int64_t number = t.scale.number, size = number < 0 ? -number : number;
    if (number < 0)
      text += text.empty() ? "-" : " - ";
    else if (!text.empty())
      text += " + ";
    text += t.atom->text;
    if (!t.scale.is_number()) text += " * " + Scale(1, t.scale.lengths).text();
    if (size != 1) text += " * " + std::to_string(size);
  }
  if (text.empty()) return std::to_string(constant_);
  if (constant_) text += (constant_ < 0 ? " - " : " + ") + std::to_string(constant_ < 0 ? -constant_ : constant_);
  return text;
}

IndexExpr IndexExpr::operator+(const IndexExpr& other) const {
  IndexExpr sum = *this;
  sum.constant_ += other.constant_;
  for (const Term& t : other.terms_) sum.add_term(t.atom, t.scale);
  return sum;
}

IndexExpr IndexExpr::operator*(const Scale& factor) const {
  IndexExpr product = of(Scale(constant_) * factor);
  if (factor.number == 0) return product;
  for (const Term& t : terms_) product.add_term(t.atom, t.scale * factor);
  return product;
}

/// Merges two adjacent digits of one sum: c * (x / a % b) + c * b * (x / (a b) % d) = c * (x / a % (b d)).
bool IndexExpr::combine(const AtomPtr& atom, const Scale& scale) {
  const auto fits = [](const Atom& low, const Scale& low_factor, const Atom& high, const Scale& high_factor) {
    return low.modulus.number && high.divisor == low.divisor * low.modulus && high_factor == low_factor * low.modulus &&
           low.of.text() == high.of.text();
  };
  for (size_t i = 0; i < terms_.size(); ++i) {
    const Term other = terms_[i];
    if (!other.atom->is_digit()) continue;
    const bool as_low = fits(*atom, scale, *other.atom, other.scale);
    if (!as_low && !fits(*other.atom, other.scale, *atom, scale)) continue;
    const Atom &low = as_low ? *atom : *other.atom, &high = as_low ? *other.atom : *atom;
    const Scale factor = as_low ? scale : other.scale;
    const IndexExpr merged = digit(low.of, low.divisor, low.modulus * high.modulus) * factor;
    terms_.erase(terms_.begin() + static_cast<int64_t>(i));
    *this = *this + merged;
    return true;
  }
  return false;
}

/// The key by which terms are sorted and like terms found.
static std::string key_of(const AtomPtr& atom, const Scale& scale) {
  return scale.is_number() ? atom->text : atom->text + " * " + Scale(1, scale.lengths).text();
}

/// A product of lengths only begins with the length whose name sorts first, so that its form is unique.
static IndexExpr::Term canonical(const AtomPtr& atom, const Scale& scale) {
  if (!atom->is_length || scale.is_number()) return {atom, scale};
  const Scale all = scale_of(*atom) * scale;
  return {atom_of(all.lengths[0]), {all.number, {all.lengths.begin() + 1, all.lengths.end()}}};
}

void IndexExpr::add_term(const AtomPtr& any_atom, const Scale& any_scale) {
  const auto [atom, scale] = canonical(any_atom, any_scale);
  const std::string key = key_of(atom, scale);
  const auto place_of = [&] {
    return std::lower_bound(terms_.begin(), terms_.end(), key,
                            [](const Term& t, const std::string& text) { return key_of(t.atom, t.scale) < text; });
  };
  const auto at = place_of();
  if (at != terms_.end() && key_of(at->atom, at->scale) == key) {
    at->scale.number += scale.number;
    const Term changed = *at;
    if (changed.scale.number == 0) {
      terms_.erase(at);
      return;
    }
    // A changed number may let the digit join a neighbour.
    if (changed.atom->is_digit()) {
      terms_.erase(at);
      if (!combine(changed.atom, changed.scale)) add_term(changed.atom, changed.scale);
    }
    return;
  }
  if (atom->is_digit() && combine(atom, scale)) return;
  terms_.insert(place_of(), {atom, scale});
}

IndexExpr index_variable(std::string name, int64_t low, int64_t high, int64_t step) {
  auto atom = std::make_shared<Atom>();
  atom->text = std::move(name);
  atom->low = low, atom->high = high, atom->step = step;
  return IndexExpr(AtomPtr(std::move(atom)));
}

IndexExpr index_variable(std::string name, const Scale& extent) {
  if (extent.is_number()) return index_variable(std::move(name), 0, extent.number - 1);
  auto atom = std::make_shared<Atom>();
  atom->text = std::move(name);
  atom->high = std::max<int64_t>(extent.high() - 1, 0);
  atom->below = extent;
  return IndexExpr(AtomPtr(std::move(atom)));
}

/// The single variable or digit that the expression consists of; nothing for a sum.
static const Atom* only_atom(const IndexExpr& expr) {
  const bool is_one = expr.terms().size() == 1 && expr.constant() == 0 && expr.terms()[0].scale == 1;
  return is_one ? expr.terms()[0].atom.get() : nullptr;
}

static std::string factor_text(const Scale& scale) {
  return scale.is_number() || scale.text().find(' ') == std::string::npos ? scale.text() : "(" + scale.text() + ")";
}

/// A number that always divides the value of the expression.
static int64_t step_of(const IndexExpr& expr) {
  int64_t step = expr.constant();
  for (const IndexExpr::Term& t : expr.terms()) step = std::gcd(step, t.scale.number * t.atom->step);
  return std::max<int64_t>(1, step);
}

/// The same for a digit of it, if it can be determined.
static int64_t step_of_digit(const IndexExpr& of, const Scale& divisor, const Scale& modulus) {
  if (!divisor.is_number() || !modulus.is_number()) return 1;
  const int64_t step = step_of(of);
  if (step % divisor.number != 0) return 1;
  return modulus.number ? std::gcd(step / divisor.number, modulus.number) : step / divisor.number;
}

static AtomPtr digit_atom(const IndexExpr& of, const Scale& divisor, const Scale& modulus) {
  auto atom = std::make_shared<Atom>();
  const Atom* simple = only_atom(of);
  atom->text = "(" + (simple ? of.text() : "(" + of.text() + ")");
  if (!(divisor == 1)) atom->text += " / " + factor_text(divisor);
  if (modulus.number) atom->text += " % " + factor_text(modulus);
  atom->text += ")";
  // A length may be only 1.
  atom->low = floor_div(of.low(), divisor.number), atom->high = floor_div(of.high(), divisor.number);
  atom->step = step_of_digit(of, divisor, modulus);
  if (modulus.number)
    atom->low = 0, atom->high = modulus.high() - atom->step, atom->below = modulus.is_number() ? Scale(0) : modulus;
  else if (simple && simple->below.number)
    atom->below = exact_quotient(simple->below, divisor).value_or(0);
  if (atom->below.number) atom->high = std::min(atom->high, std::max<int64_t>(atom->below.high() - 1, 0));
  atom->of = of, atom->divisor = divisor, atom->modulus = modulus;
  return atom;
}

namespace {
/// A sum split into `multiple` (every term a multiple of `unit`) and the rest.
struct Parts {
  IndexExpr multiple, rest;
};
Parts split_by(const IndexExpr& expr, int64_t unit) {
  Parts parts;
  for (const IndexExpr::Term& t : expr.terms()) {
    const bool whole = t.scale.number * t.atom->step % unit == 0;
    (whole ? parts.multiple : parts.rest) = (whole ? parts.multiple : parts.rest) + IndexExpr(t.atom, t.scale);
  }
  const int64_t low = floor_div(expr.constant(), unit) * unit;
  parts.multiple = parts.multiple + low;
  parts.rest = parts.rest + (expr.constant() - low);
  return parts;
}

/// The term divided by a scale, if that divides it for all values of the variables.
std::optional<IndexExpr> divided(const IndexExpr::Term& t, const Scale& by) {
  if (const std::optional<Scale> scale = exact_quotient(t.scale, by)) return IndexExpr(t.atom, *scale);
  if (!t.atom->is_length) return {};
  const std::optional<Scale> scale = exact_quotient(scale_of(*t.atom) * t.scale, by);
  return scale ? std::optional(IndexExpr::of(*scale)) : std::nullopt;
}
/// The terms that `by` divides, divided by it, and the rest.
Parts split_by_scale(const IndexExpr& expr, const Scale& by) {
  const int64_t whole = by.is_number() ? floor_div(expr.constant(), by.number) : 0;
  Parts parts{whole, expr.constant() - whole * by.number};
  for (const IndexExpr::Term& t : expr.terms()) {
    const std::optional<IndexExpr> out = divided(t, by);
    (out ? parts.multiple : parts.rest) = out ? parts.multiple + *out : parts.rest + IndexExpr(t.atom, t.scale);
  }
  return parts;
}

bool within(const IndexExpr& expr, int64_t end) { return expr.low() >= 0 && expr.high() < end; }

/// Units that could separate the terms of a sum: common divisors of each term with `whole`, larger first.
std::vector<int64_t> units_of(const IndexExpr& expr, int64_t whole) {
  std::vector<int64_t> units;
  for (const IndexExpr::Term& t : expr.terms()) units.push_back(std::gcd(t.scale.number * t.atom->step, whole));
  std::sort(units.rbegin(), units.rend());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  return units;
}

IndexExpr divide_terms(const IndexExpr& expr, int64_t divisor) {
  IndexExpr result = expr.constant() / divisor;
  for (const IndexExpr::Term& t : expr.terms())
    result = result + IndexExpr(t.atom, {t.scale.number / divisor, t.scale.lengths});
  return result;
}
bool all_divisible(const IndexExpr& expr, int64_t divisor) {
  return expr.constant() % divisor == 0 && std::all_of(expr.terms().begin(), expr.terms().end(),
                                                       [&](const auto& t) { return t.scale.number % divisor == 0; });
}

/// Run-time factors of a product that could separate the terms of a sum: all lengths together, and each one if there
/// are several.
std::vector<Scale> run_time_units(const Scale& product) {
  std::vector<Scale> units;
  if (!product.is_number()) units.emplace_back(1, product.lengths);
  for (const RunLength& length : product.lengths)
    if (product.lengths.size() > 1) units.emplace_back(1, std::vector<RunLength>{length});
  return units;
}

/// Whether the maxima of the terms add up to less than `end`, if all terms are multiples of the lengths in `end`.
/// Example: 16 C g + 4 C c + x < 64 C for g, c < 4 and x < 4 C.
bool sums_below(const IndexExpr& expr, const Scale& end) {
  const auto has_lengths_of_end = [&](const Scale& scale) { return Scale(1, scale.lengths) == Scale(1, end.lengths); };
  if (expr.constant() != 0) return false;
  int64_t most = 0;
  bool is_less = false;
  for (const IndexExpr::Term& t : expr.terms()) {
    const Scale extent = t.atom->below * t.scale;  // exclusive bound of the term
    if (t.scale.number < 0 || t.atom->low < 0 || t.atom->is_length) return false;
    if (extent.number && has_lengths_of_end(extent))
      most += extent.number, is_less = true;
    else if (has_lengths_of_end(t.scale))
      most += t.atom->high * t.scale.number;
    else
      return false;
  }
  return most < end.number || (most == end.number && is_less);
}

/// Whether the expression lies in [0, end) for all lengths. If the end is a product, terms with one factor must stay
/// below the other factors, and the rest below that factor.
bool within(const IndexExpr& expr, const Scale& end) {
  if (end.is_number()) return within(expr, end.number);
  if (expr.low() < 0) return false;
  if (expr.is_constant()) return expr.constant() == 0;
  if (const Atom* atom = only_atom(expr); atom && atom->below.number && exact_quotient(end, atom->below)) return true;
  if (sums_below(expr, end)) return true;
  if (end.number != 1) {
    const Parts parts = split_by(expr, end.number);
    if (all_divisible(parts.multiple, end.number) && within(parts.rest, end.number) &&
        within(divide_terms(parts.multiple, end.number), Scale(1, end.lengths)))
      return true;
  }
  for (const Scale& unit : run_time_units(end)) {
    const Parts parts = split_by_scale(expr, unit);
    const bool is_split = !(unit == end) && !(parts.rest == expr);
    if (is_split && within(parts.rest, unit) && within(parts.multiple, *exact_quotient(end, unit))) return true;
  }
  return false;
}

}  // namespace

static IndexExpr quotient_of(const IndexExpr& expr, const Scale& divisor) {
  if (divisor == 1) return expr;
  // A dimension without elements has no index.
  if (divisor.number == 0 || within(expr, divisor)) return 0;
  // Terms that the divisor divides are taken out; the remaining ones must not become negative.
  auto [out, stays] = split_by_scale(expr, divisor);
  if (stays.low() < 0) out = 0, stays = expr;
  if (within(stays, divisor)) return out;
  for (int64_t unit : units_of(stays, divisor.number)) {
    if (unit == 1) break;
    const Parts parts = split_by(stays, unit);
    if (!within(parts.rest, unit) || parts.multiple.low() < 0) continue;
    if (all_divisible(parts.multiple, unit))
      return out + quotient_of(divide_terms(parts.multiple, unit), *exact_quotient(divisor, unit));
    stays = parts.multiple;
  }
  for (const Scale& unit : run_time_units(divisor)) {
    const Parts parts = split_by_scale(stays, unit);
    if (!parts.multiple.is_constant() && within(parts.rest, unit))
      return out + quotient_of(parts.multiple, *exact_quotient(divisor, unit));
  }
  if (const Atom* inner = only_atom(stays); inner && inner->is_digit()) {
    // x / a / b = x / (a b), also under a modulus that b divides.
    const std::optional<Scale> modulus = exact_quotient(inner->modulus, divisor);
    if (!inner->modulus.number || modulus)
      return out + digit(inner->of, inner->divisor * divisor, inner->modulus.number ? *modulus : 0);
  }
  return out + IndexExpr(digit_atom(stays, divisor, 0));
}

static IndexExpr remainder_of(const IndexExpr& expr, const Scale& modulus) {
  if (modulus == 1) return 0;
  if (within(expr, modulus)) return expr;
  IndexExpr stays;
  for (const IndexExpr::Term& t : expr.terms())
    if (!divided({t.atom, t.scale * t.atom->step}, modulus)) stays = stays + IndexExpr(t.atom, t.scale);
  const int64_t constant = expr.constant();
  stays = stays + (modulus.is_number() ? constant - floor_div(constant, modulus.number) * modulus.number : constant);
  if (stays.low() < 0) stays = expr;
  if (within(stays, modulus)) return stays;
  for (int64_t unit : units_of(stays, modulus.number)) {
    if (unit == 1) break;
    const Parts parts = split_by(stays, unit);
    if (!within(parts.rest, unit) || parts.multiple.low() < 0) continue;
    if (all_divisible(parts.multiple, unit))
      return remainder_of(divide_terms(parts.multiple, unit), *exact_quotient(modulus, unit)) * unit + parts.rest;
    if (!parts.rest.is_constant()) return remainder_of(parts.multiple, modulus) + parts.rest;
  }
  for (const Scale& unit : run_time_units(modulus)) {
    const Parts parts = split_by_scale(stays, unit);
    if (!parts.multiple.is_constant() && within(parts.rest, unit))
      return remainder_of(parts.multiple, *exact_quotient(modulus, unit)) * unit + parts.rest;
  }
  // (x / a % c) % b is one digit of x if b divides c.
  if (const Atom* inner = only_atom(stays); inner && inner->is_digit())
    if (!inner->modulus.number || exact_quotient(inner->modulus, modulus))
      return IndexExpr(digit_atom(inner->of, inner->divisor, modulus));
  return IndexExpr(digit_atom(stays, 1, modulus));
}

IndexExpr digit(const IndexExpr& expr, const Scale& divisor, const Scale& modulus) {
  const IndexExpr above = quotient_of(expr, divisor);
  return modulus.number ? remainder_of(above, modulus) : above;
}

IndexList element_of(const IndexDims& extents, const std::string& prefix) {
  IndexList index;
  for (size_t d = 0; d < extents.size(); ++d) index.push_back(index_variable(prefix + std::to_string(d), extents[d]));
  return index;
}

Scale IndexDims::count() const {
  Scale product = 1;
  for (const Scale& extent : *this) product = product * extent;
  return product;
}

IndexExpr linear_index(const IndexList& index, const IndexDims& dims) {
  IndexExpr linear;
  Scale stride = 1;
  for (size_t d = dims.size(); d-- > 0; stride = stride * dims[d]) linear = linear + index[d] * stride;
  return linear;
}

IndexList unravel(const IndexExpr& linear, const IndexDims& dims) {
  IndexList index(dims.size());
  Scale stride = 1;
  size_t first = 0;  // the first dimension with several elements takes the remaining index
  while (first < dims.size() && dims[first] == 1) ++first;
  for (size_t d = dims.size(); d-- > 0; stride = stride * dims[d]) {
    const Scale inside = stride * dims[d];
    const bool outermost = inside.is_number() ? linear.high() < inside.number : d == first;
    index[d] = dims[d] == 1 ? IndexExpr(0) : digit(linear, stride, outermost ? Scale(0) : dims[d]);
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
    if (t.atom->is_digit()) {
      stride.affine &= !mentions(t.atom->of, variable);
    } else if (t.atom->text == variable) {
      stride.affine &= stride.coefficient == 0;
      stride.coefficient = t.scale;
    }
  }
  return stride;
}

std::vector<AtomPtr> variables_of(const IndexExpr& expr) {
  std::vector<AtomPtr> found;
  const auto add = [&](const Scale& scale) {
    for (const RunLength& length : scale.lengths) found.push_back(atom_of(length));
  };
  for (const IndexExpr::Term& t : expr.terms()) {
    add(t.scale);
    if (!t.atom->is_digit()) {
      found.push_back(t.atom);
      continue;
    }
    add(t.atom->divisor), add(t.atom->modulus);
    const std::vector<AtomPtr> inner = variables_of(t.atom->of);
    found.insert(found.end(), inner.begin(), inner.end());
  }
  return found;
}

IndexExpr substitute(const IndexExpr& expr, const std::string& variable, const IndexExpr& by) {
  IndexExpr result = expr.constant();
  for (const IndexExpr::Term& t : expr.terms()) {
    if (t.atom->is_digit())
      result = result + digit(substitute(t.atom->of, variable, by), t.atom->divisor, t.atom->modulus) * t.scale;
    else
      result = result + (t.atom->text == variable ? by * t.scale : IndexExpr(t.atom, t.scale));
  }
  return result;
}

}  // namespace weftc
