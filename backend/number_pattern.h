// Names that differ only in numbers: "h.0.ln_1" and "h.1.ln_1".
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weftc {

/// A text split into numbers and the parts around them; there is one part more than numbers.
struct NumberPattern {
  std::vector<std::string> parts{""};
  std::vector<int64_t> numbers;

  explicit NumberPattern(const std::string& from);
  bool is_like(const NumberPattern& other) const { return parts == other.parts; }
};

/// True if a text contains the notation for a layer's number.
bool has_braces(const std::string& text);

/// The common text of names that belong to layers `begin`, begin + 1, ...: "h.{layer}.ln_1", or "val_{4 * layer + 3}".
/// Nothing if they differ elsewhere, or numbers do not follow the layer.
std::optional<std::string> layer_text(const std::vector<std::string>& names, int begin);

/// The name with `instead` in place of the numbers in which the two differ, "h.layer.ln_1"; without them if that is
/// empty, "h.ln_1". The first name if more differs.
std::string without_layer(const std::string& first, const std::string& second, const std::string& instead);

}  // namespace weftc
