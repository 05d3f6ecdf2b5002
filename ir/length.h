// Lengths that only a run knows, such as an open dimension of an input or the rows that a state has grown to. They are
// polynomials in a canonical form, so that shapes can be compared without knowing any number:
//
//   x f32[batch, seq, 768]   Reshape to [-1, 768]   ->   f32[batch * seq, 768]
//   past f32[past, 64], new f32[seq, 64]   Concat   ->   f32[past + seq, 64]
//
// A function that is not a polynomial is a symbol of its own: a quotient with a remainder, the smaller of two lengths.
// Numbers beyond 2^60, like the INT64_MAX by which exporters mean "to the end", become 2^60: no tensor is as long.
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
  /// A length of this name, between 0 and `high`. Lengths of one name are equal. Texts quote a name that is not a word.
  static Length named(const std::string& name, int64_t high);

  bool is_constant() const;
  /// The value of a constant length.
  int64_t constant() const;
  /// Bounds that hold in every run.
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

/// A symbol is a named length, or a function of two lengths that is not a polynomial.
struct LengthSymbol {
  enum class Kind : uint8_t { Named, Quotient, Remainder, Minimum, Maximum };
  Kind kind = Kind::Named;
  std::string text;
  int64_t low = 0, high = 0;
  std::vector<Length> operands;  // of a function: two
};

/// a / b where it is a polynomial.
std::optional<Length> exact_quotient(const Length& a, const Length& b);
/// a / b rounded down, and the remainder, for a >= 0 and b > 0; nothing if the result is not certain.
std::optional<Length> floor_quotient(const Length& a, const Length& b);
std::optional<Length> remainder_of(const Length& a, const Length& b);
Length minimum(const Length& a, const Length& b);
Length maximum(const Length& a, const Length& b);
/// The length if each name has at least this value; names that the map lacks keep their lower bound. Nothing if an
/// operand of a quotient may still be negative.
std::optional<Length> with_least(const Length& length, const std::map<std::string, int64_t>& least);

/// The symbol of a length that consists of one name; nullptr for any other.
const LengthSymbol* as_name(const Length& length);
/// Calls `f` for each occurrence of a named length.
void for_each_name(const Length& length, const std::function<void(const LengthSymbolPtr&)>& f);
/// The same for a length's text.
void for_each_name(std::string_view text, const std::function<void(const std::string&)>& f);
/// Replaces each named length by another, keeping its bounds.
Length substitute(const Length& length, const std::function<Length(const LengthSymbol&)>& of);
/// Evaluates a length; `numbers` gives the named lengths by their texts. Nothing if one is missing or something is
/// divided by 0.
std::optional<int64_t> number_of(const Length& length, const std::map<std::string, int64_t>& numbers);
/// Parses the text of a length; `bounds` gives the bounds of named lengths by their texts. Nothing if the text is
/// malformed or has another name.
std::optional<Length> parse_length(std::string_view text, const std::map<std::string, int64_t>& bounds);

}  // namespace weftc
