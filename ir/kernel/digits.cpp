// Inserts the digits of a layout into index expressions, and removes them; ir/layout.h defines the digits.
#include "ir/kernel/digits.h"

namespace weftc {

IndexExpr with_digits(const IndexExpr& index, const std::vector<Digit>& digits, const std::function<bool(int)>& whole,
                      const CoordinateFn& coordinate) {
  IndexExpr result = index;
  int64_t removed = 1;  // sizes of finer digits that stay removed
  for (size_t i = digits.size(); i-- > 0;) {
    const Digit& d = digits[i];
    if (!whole(d.axis)) {
      removed *= d.size;
      continue;
    }
    const int64_t block = d.block / removed;
    result = quotient(result, block) * (block * d.size) + coordinate(d.axis) * block + remainder(result, block);
  }
  return result;
}

IndexExpr without_digits(const IndexExpr& index, const std::vector<Digit>& digits) {
  IndexExpr result = index;
  // Coarse first: removing a digit does not change blocks of finer digits.
  for (const Digit& d : digits) result = quotient(result, d.block * d.size) * d.block + remainder(result, d.block);
  return result;
}

std::vector<IndexExpr> digits_at(const IndexExpr& index, const std::vector<Digit>& digits) {
  std::vector<IndexExpr> values;
  for (const Digit& d : digits) values.push_back(digit(index, d.block, d.size));
  return values;
}

int64_t parts_of(const TensorType& type, int dim, const Mesh& mesh) {
  int64_t parts = 1;
  for (const Digit& d : digits_of(type.layout, dim, mesh)) parts *= d.size;
  return parts;
}

}  // namespace weftc
