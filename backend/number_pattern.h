// Names in which only numbers differ: "h.0.ln_1" and "h.1.ln_1".
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weftc {

/// A text as numbers and what stands in front of, between and behind them: one part more than there are numbers.
struct NumberPattern {
  std::vector<std::string> parts{""};
  std::vector<int64_t> numbers;

  explicit NumberPattern(const std::string& from);
  bool is_like(const NumberPattern& other) const { return parts == other.parts; }
};

/// True where a text has what would mean the number of a layer.
bool has_braces(const std::string& text);

/// The one text of names that belong to layers `begin`, begin + 1, ...: "h.{layer}.ln_1", or "val_{4 * layer + 3}".
/// Nothing where something else differs, or numbers do not go with the layer.
std::optional<std::string> layer_text(const std::vector<std::string>& names, int begin);

/// The name with `instead` for the numbers in which the two differ, "h.layer.ln_1"; without them where that is empty,
/// "h.ln_1". The first where more differs.
std::string without_layer(const std::string& first, const std::string& second, const std::string& instead);

}  // namespace weftc
