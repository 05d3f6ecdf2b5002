// Names of a model in emitted text. The identifiers, comments and strings made here cannot be broken by any name.
#pragma once
#include <set>
#include <string>
#include <string_view>

namespace weftc {

/// A legal C++ identifier made from any text: "h.0/c_fc:0" -> "h_0_c_fc_0". Never a keyword, a reserved name, or a word
/// that emitted code uses itself.
std::string identifier(std::string_view text);
/// The part of a name after the last '.' or '/'.
std::string_view last_component(std::string_view name);
/// For a // comment: printable ASCII on one line, without backslashes or trigraphs.
std::string comment_text(std::string_view text);
/// A string literal with its quotes; bytes outside printable ASCII in octal.
std::string string_literal(std::string_view text);
/// A JSON string with its quotes.
std::string json_string(std::string_view text);

/// Identifiers of one scope.
class Names {
 public:
  /// `text` as an identifier, with "_2", "_3" ... appended if it is taken.
  std::string unique(std::string_view text);
  bool has(const std::string& name) const { return taken_.contains(name); }
  void reserve(std::string name) { taken_.insert(std::move(name)); }

 private:
  std::set<std::string> taken_;
};

}  // namespace weftc
