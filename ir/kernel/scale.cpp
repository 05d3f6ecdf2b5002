// Arithmetic of scales: lengths are kept sorted, so that equal scales have equal texts.
#include "ir/kernel/scale.h"

#include <algorithm>
#include <iterator>

namespace weftc {

static bool in_order(const RunLength& a, const RunLength& b) { return a.name < b.name; }

int64_t Scale::high() const {
  int64_t product = number;
  for (const RunLength& length : lengths) product *= length.bound;
  return product;
}

std::string Scale::text() const {
  std::string text;
  for (const RunLength& length : lengths) text += (text.empty() ? "" : " * ") + length.name;
  if (text.empty()) return std::to_string(number);
  return number == 1 ? text : text + " * " + std::to_string(number);
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
                    [](const RunLength& a, const RunLength& b) { return a.name == b.name; });
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
