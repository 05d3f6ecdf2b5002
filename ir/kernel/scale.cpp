// Arithmetic of scales: lengths are kept sorted, so that equal scales have equal texts.
#include "ir/kernel/scale.h"

#include <algorithm>
#include <iterator>

#include "ir/kernel/index_expr.h"

namespace weftc {

static std::string text_of(const std::vector<AtomPtr>& lengths) {
  std::string text;
  for (const AtomPtr& length : lengths) text += (text.empty() ? "" : " * ") + length->text;
  return text;
}
static bool in_order(const AtomPtr& a, const AtomPtr& b) { return a->text < b->text; }

Scale Scale::length(std::string name, int64_t bound) {
  auto atom = std::make_shared<Atom>();
  atom->text = std::move(name);
  atom->high = bound;
  atom->is_length = true;
  return {1, {AtomPtr(std::move(atom))}};
}

int64_t Scale::high() const {
  int64_t product = number;
  for (const AtomPtr& length : lengths) product *= length->high;
  return product;
}

std::string Scale::text() const {
  if (lengths.empty()) return std::to_string(number);
  return text_of(lengths) + (number == 1 ? "" : " * " + std::to_string(number));
}

Scale Scale::operator*(const Scale& other) const {
  Scale product(number * other.number);
  if (product.number == 0) return product;
  std::merge(lengths.begin(), lengths.end(), other.lengths.begin(), other.lengths.end(),
             std::back_inserter(product.lengths), in_order);
  return product;
}

bool Scale::operator==(const Scale& other) const {
  return number == other.number &&
         std::equal(lengths.begin(), lengths.end(), other.lengths.begin(), other.lengths.end(),
                    [](const AtomPtr& a, const AtomPtr& b) { return a->text == b->text; });
}

std::optional<Scale> exact_quotient(const Scale& a, const Scale& b) {
  if (b.number == 0 || a.number % b.number) return {};
  if (!std::includes(a.lengths.begin(), a.lengths.end(), b.lengths.begin(), b.lengths.end(), in_order)) return {};
  Scale quotient(a.number / b.number);
  std::set_difference(a.lengths.begin(), a.lengths.end(), b.lengths.begin(), b.lengths.end(),
                      std::back_inserter(quotient.lengths), in_order);
  return quotient;
}

}  // namespace weftc
