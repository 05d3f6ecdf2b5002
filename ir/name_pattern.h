// Names with `{l}` variables and `*`, as schedules write them for many names at once.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace weftc {

/// Texts bound to the `{...}` variables of a step.
using Bindings = std::map<std::string, std::string>;
/// `text` with the bound variables replaced.
std::string substitute(const std::string& text, const Bindings& bindings);

/// A name where `{l}` stands for one component without '.' and '/', `*` for anything.
class NamePattern {
 public:
  explicit NamePattern(const std::string& text);
  /// What the variables are where it matches a name. `substitute` puts the texts of its stars in place of the stars of
  /// another text, in order.
  std::optional<Bindings> match(const std::string& name) const;
  /// What every name begins with that it matches.
  std::string start() const;

 private:
  struct Piece {
    enum class Kind { Literal, Variable, Any } kind;
    std::string text;  // of a star: its number
  };
  static std::vector<Piece> pieces_of(const std::string& text);
  friend std::string substitute(const std::string& text, const Bindings& bindings);
  bool match(size_t piece, const std::string& name, size_t at, Bindings& bound) const;

  std::vector<Piece> pieces_;
};

}  // namespace weftc
