// Numbers of elements that a kernel knows partly when it is written and partly when it runs: strides, extents and
// moduli of index expressions (index_expr.h).
//
//   f32[batch, seq, 12, 64]     extents batch, seq, 12, 64; strides seq * 768, 768, 64, 1
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weftc {

struct Atom;
using AtomPtr = std::shared_ptr<const Atom>;

/// A number of elements: a constant times run-time lengths.
struct Scale {
  int64_t number = 1;
  std::vector<AtomPtr> lengths = {};  // variables that are lengths, sorted by their text

  Scale(int64_t constant = 1) : number(constant) {}
  Scale(int64_t constant, std::vector<AtomPtr> sorted) : number(constant), lengths(std::move(sorted)) {}
  /// A run-time length between 0 and `bound`.
  static Scale length(std::string name, int64_t bound);

  bool is_number() const { return lengths.empty(); }
  /// The largest value, for a number that is not negative.
  int64_t high() const;
  /// "seq * 64"
  std::string text() const;
  Scale operator*(const Scale& other) const;
  bool operator==(const Scale& other) const;
};
/// The scale that `b` times it is `a`, if there is one.
std::optional<Scale> exact_quotient(const Scale& a, const Scale& b);

}  // namespace weftc
