// Lengths that only a run knows: an open dimension of an input, the rows that a state has grown to. They are kept as
// polynomials in a canonical form, so that the shapes of a model are compared without knowing a single number:
//
//   x f32[batch, seq, 768]   Reshape to [-1, 768]   ->   f32[batch * seq, 768]
//   past f32[past, 64], new f32[seq, 64]   Concat   ->   f32[past + seq, 64]
//
// What is no polynomial is a symbol of its own: a quotient that leaves a rest, the smaller of two lengths. Numbers
// beyond 2^60, like the INT64_MAX by which exporters mean "to the end", become 2^60: no tensor is as long.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weftc {

struct LengthSymbol;
using LengthSymbolPtr = std::shared_ptr<const LengthSymbol>;

class Length {
 public:
  struct Term {
    std::vector<LengthSymbolPtr> factors;  // sorted by their text; none: the constant
    int64_t coefficient;
  };

  Length(int64_t constant = 0);
  explicit Length(LengthSymbolPtr symbol);
  /// A length of this name, between 0 and `high`. Lengths of one name are equal. A name that is no word stands quoted
  /// in texts.
  static Length named(const std::string& name, int64_t high);

  bool is_constant() const;
  /// Of a constant length: its number.
  int64_t constant() const;
  /// Bounds that every run keeps.
  int64_t low() const;
  int64_t high() const;
  /// "past + seq * 2"; equal lengths have equal texts.
  const std::string& text() const;
  const std::vector<Term>& terms() const;

  Length operator+(const Length& other) const;
  Length operator-(const Length& other) const;
  Length operator*(const Length& other) const;
  bool operator==(const Length& other) const;

 private:
  struct Form;
  explicit Length(std::vector<Term> terms);
  std::shared_ptr<const Form> form_;
};

/// "[batch, seq * 2]"
std::string text_of(const std::vector<Length>& lengths);

/// What a symbol stands for: a named length, or a function of two lengths that is no polynomial.
struct LengthSymbol {
  enum class Kind : uint8_t { Named, Quotient, Remainder, Minimum, Maximum };
  Kind kind = Kind::Named;
  std::string text;
  int64_t low = 0, high = 0;
  std::vector<Length> operands;  // of a function: two
};

/// a / b where it is a polynomial.
std::optional<Length> exact_quotient(const Length& a, const Length& b);
/// a / b rounded down, and what is left, for a >= 0 and b > 0; nothing where that is not certain.
std::optional<Length> floor_quotient(const Length& a, const Length& b);
std::optional<Length> remainder_of(const Length& a, const Length& b);
Length minimum(const Length& a, const Length& b);
Length maximum(const Length& a, const Length& b);
/// The length where each name has at least this value (names that the map lacks: what they have); nothing where an
/// operand of a quotient may be negative still.
std::optional<Length> with_least(const Length& length, const std::map<std::string, int64_t>& least);

/// The symbol of a length that is a name and nothing else; null of any other.
const LengthSymbol* as_name(const Length& length);
/// The named lengths in a length, each as often as it occurs.
void for_each_name(const Length& length, const std::function<void(const LengthSymbolPtr&)>& f);
/// The same of a length's text.
void for_each_name(std::string_view text, const std::function<void(const std::string&)>& f);
/// The length with another in place of each named one. It keeps the bounds that these have.
Length substitute(const Length& length, const std::function<Length(const LengthSymbol&)>& of);
/// The number that a length is where its named ones, by their texts, are these numbers; nothing where one is missing or
/// something is divided by 0.
std::optional<int64_t> number_of(const Length& length, const std::map<std::string, int64_t>& numbers);
/// The length of a text, with the bounds that named ones have by their texts; nothing where it is none, or names
/// another.
std::optional<Length> parse_length(std::string_view text, const std::map<std::string, int64_t>& bounds);

}  // namespace weftc
