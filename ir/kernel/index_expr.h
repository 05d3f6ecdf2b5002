// Index algebra: integer expressions over loop variables, kept as sums of scale times atom. An atom is a variable or a
// digit (x / divisor % modulus) of a sum that is not negative. Known ranges remove most digits: the result of a chain
// of reshapes and transposes becomes affine again if possible. Scales, divisors and moduli are numbers times run-time
// lengths, because tensors with such lengths are also dense in memory:
//
//   element (b, s, c) of f32[batch, seq, 64]      b * seq * 64 + s * 64 + c
//   the same as [batch * seq, 64], row r          r * 64 + c, where b is r / seq and s is r % seq
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/kernel/scale.h"

namespace weftc {

struct Atom;
using AtomPtr = std::shared_ptr<const Atom>;

class IndexExpr {
 public:
  struct Term {
    AtomPtr atom;
    Scale scale;
  };

  IndexExpr(int64_t constant = 0) : constant_(constant) {}
  explicit IndexExpr(AtomPtr atom, const Scale& scale = 1);
  /// The value of a scale itself.
  static IndexExpr of(const Scale& scale);

  int64_t constant() const { return constant_; }
  const std::vector<Term>& terms() const { return terms_; }
  bool is_constant() const { return terms_.empty(); }
  /// Smallest and largest value.
  int64_t low() const;
  int64_t high() const;
  /// C++ text; equal expressions have equal texts.
  std::string text() const;

  IndexExpr operator+(const IndexExpr& other) const;
  IndexExpr operator*(const Scale& factor) const;
  IndexExpr operator-(const IndexExpr& other) const { return *this + other * -1; }
  bool operator==(const IndexExpr& other) const { return text() == other.text(); }

 private:
  void add_term(const AtomPtr& atom, const Scale& scale);
  bool combine(const AtomPtr& atom, const Scale& scale);

  int64_t constant_ = 0;
  std::vector<Term> terms_;  // sorted by the texts of atoms and lengths, numbers not zero
};

struct Atom {
  std::string text;  // the variable, or "(x / 64 % 12)"
  int64_t low = 0, high = 0;
  int64_t step = 1;  // the value is a multiple of this
  bool is_length = false;
  Scale below = 0;  // a run-time exclusive bound of the value; 0: unknown
  /// Digits: which.
  IndexExpr of;
  Scale divisor = 0;  // 0: a variable
  Scale modulus = 0;  // 0: none

  bool is_digit() const { return divisor.number != 0; }
};

/// A variable in [low, high], always a multiple of `step`.
IndexExpr index_variable(std::string name, int64_t low, int64_t high, int64_t step = 1);
/// A variable in [0, extent).
IndexExpr index_variable(std::string name, const Scale& extent);
/// expr / divisor % modulus for expr >= 0; modulus 0: no remainder is taken. If a length is 0, no element can have this
/// index.
IndexExpr digit(const IndexExpr& expr, const Scale& divisor, const Scale& modulus);
inline IndexExpr quotient(const IndexExpr& expr, const Scale& divisor) { return digit(expr, divisor, 0); }
inline IndexExpr remainder(const IndexExpr& expr, const Scale& modulus) { return digit(expr, 1, modulus); }

using IndexList = std::vector<IndexExpr>;
struct IndexDims;
/// A variable for each dimension: prefix0, prefix1, ...
IndexList element_of(const IndexDims& extents, const std::string& prefix);
/// Extents of a tensor; some may be known at run time only.
struct IndexDims : std::vector<Scale> {
  using std::vector<Scale>::vector;
  IndexDims(const std::vector<int64_t>& dims) : std::vector<Scale>(dims.begin(), dims.end()) {}
  /// The product of all.
  Scale count() const;
};
/// Row-major position of `index` in a tensor of `dims`, and back.
IndexExpr linear_index(const IndexList& index, const IndexDims& dims);
IndexList unravel(const IndexExpr& linear, const IndexDims& dims);

/// The scale of a variable that occurs in no digit of the expression, 0 if it does not occur at all.
struct Stride {
  bool affine = true;
  Scale coefficient = 0;
};
Stride stride_of(const IndexExpr& expr, const std::string& variable);
/// All variables, those inside digits and lengths included.
std::vector<AtomPtr> variables_of(const IndexExpr& expr);
/// The expression with a variable replaced.
IndexExpr substitute(const IndexExpr& expr, const std::string& variable, const IndexExpr& by);

}  // namespace weftc
