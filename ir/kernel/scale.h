// Numbers of elements that are partly known when a kernel is written and partly when it runs: strides, extents and
// moduli of index expressions (index_expr.h).
//
//   f32[batch, seq, 12, 64]     extents batch, seq, 12, 64; strides seq * 768, 768, 64, 1
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weftc {

/// A number of elements that only a run knows, between 0 and a bound: a variable of the kernel.
struct RunLength {
  std::string name;
  int64_t bound;
};

/// A number of elements: a constant times run-time lengths.
struct Scale {
  int64_t number = 1;
  std::vector<RunLength> lengths = {};  // sorted by name

  Scale(int64_t constant = 1) : number(constant) {}
  Scale(int64_t constant, std::vector<RunLength> sorted) : number(constant), lengths(std::move(sorted)) {}
  static Scale length(std::string name, int64_t bound) { return {1, {{std::move(name), bound}}}; }

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
