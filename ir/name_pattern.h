// Names with `{l}` variables and `*`, by which schedules select many names at once.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace weftc {

/// Texts bound to the `{...}` variables of a step.
using Bindings = std::map<std::string, std::string>;
/// `text` with the bound variables replaced.
std::string substitute(const std::string& text, const Bindings& bindings);

/// A name where `{l}` stands for one component without '.' and '/', `{0..5}` for one of these numbers, `*` for
/// anything. A dot of a pattern also matches a slash, as exporters write it. A name may begin with a slash that the
/// pattern leaves out.
class NamePattern {
 public:
  explicit NamePattern(const std::string& text);
  /// The values of the variables if the pattern matches the name. `substitute` replaces the stars of another text by
  /// the texts of its stars, in order.
  std::optional<Bindings> match(const std::string& name) const;
  /// The prefix of every name that it matches; such a name may have a slash before it.
  std::string start() const;
  /// True if it has a `{l}`.
  bool has_variables() const;

 private:
  struct Piece {
    enum class Kind { Literal, Variable, Any, Range } kind;
    std::string text;  // for a star or a range: its number
    int64_t first = 0, last = 0;
    /// The text in the pattern.
    std::string unbound() const;
  };
  static std::optional<Piece> range_of(const std::string& text);
  bool match_literal(size_t piece, const std::string& name, size_t at, Bindings& bound) const;
  bool match_range(size_t piece, const std::string& name, size_t at, Bindings& bound) const;
  static std::vector<Piece> pieces_of(const std::string& text);
  friend std::string substitute(const std::string& text, const Bindings& bindings);
  bool match(size_t piece, const std::string& name, size_t at, Bindings& bound) const;

  std::vector<Piece> pieces_;
};

}  // namespace weftc
