// Index algebra: integer expressions over loop variables, kept as sums of coefficient times atom. An atom is a variable
// or a digit (x / divisor % modulus) of a sum that is not negative. Known ranges make most digits vanish: what a chain
// of reshapes and transposes computes becomes affine again wherever it can.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weftc {

struct Atom;
using AtomPtr = std::shared_ptr<const Atom>;

class IndexExpr {
 public:
  struct Term {
    AtomPtr atom;
    int64_t coefficient;
  };

  IndexExpr(int64_t constant = 0) : constant_(constant) {}
  explicit IndexExpr(AtomPtr atom, int64_t coefficient = 1);

  int64_t constant() const { return constant_; }
  const std::vector<Term>& terms() const { return terms_; }
  bool is_constant() const { return terms_.empty(); }
  /// Smallest and largest value.
  int64_t low() const;
  int64_t high() const;
  /// C++ text; equal expressions have equal texts.
  std::string text() const;

  IndexExpr operator+(const IndexExpr& other) const;
  IndexExpr operator*(int64_t factor) const;
  IndexExpr operator-(const IndexExpr& other) const { return *this + other * -1; }
  bool operator==(const IndexExpr& other) const { return text() == other.text(); }

 private:
  friend IndexExpr digit(const IndexExpr&, int64_t, int64_t);
  void add_term(const AtomPtr& atom, int64_t coefficient);
  bool combine(const AtomPtr& atom, int64_t coefficient);

  int64_t constant_ = 0;
  std::vector<Term> terms_;  // sorted by the atoms' text, coefficients not zero
};

struct Atom {
  std::string text;  // the variable, or "(x / 64 % 12)"
  int64_t low = 0, high = 0;
  int64_t step = 1;  // the value is a multiple of this
  /// Digits: which.
  IndexExpr of;
  int64_t divisor = 0;  // 0: a variable
  int64_t modulus = 0;  // 0: none

  bool is_digit() const { return divisor != 0; }
};

/// A variable in [low, high], always a multiple of `step`.
IndexExpr index_variable(std::string name, int64_t low, int64_t high, int64_t step = 1);
/// expr / divisor % modulus for expr >= 0; modulus 0: no remainder is taken.
IndexExpr digit(const IndexExpr& expr, int64_t divisor, int64_t modulus);
inline IndexExpr quotient(const IndexExpr& expr, int64_t divisor) { return digit(expr, divisor, 0); }
inline IndexExpr remainder(const IndexExpr& expr, int64_t modulus) { return digit(expr, 1, modulus); }

using IndexList = std::vector<IndexExpr>;
/// Row-major position of `index` in a tensor of `dims`, and back.
IndexExpr linear_index(const IndexList& index, const std::vector<int64_t>& dims);
IndexList unravel(const IndexExpr& linear, const std::vector<int64_t>& dims);

/// The coefficient of a variable that occurs in no digit of the expression, 0 if it does not occur at all.
struct Stride {
  bool affine = true;
  int64_t coefficient = 0;
};
Stride stride_of(const IndexExpr& expr, const std::string& variable);
/// All variables, those inside digits included.
std::vector<AtomPtr> variables_of(const IndexExpr& expr);
/// The expression with a variable replaced.
IndexExpr substitute(const IndexExpr& expr, const std::string& variable, const IndexExpr& by);

}  // namespace weftc
