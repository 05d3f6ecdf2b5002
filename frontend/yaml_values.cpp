// Reads numbers, words and mappings from YAML nodes. `what` names the node in messages: "the mesh must be a mapping".
#include "frontend/yaml_values.h"

#include <charconv>
#include <cmath>

#include "ir/base/quantity.h"

namespace weftc {

bool YamlValues::has_kind(const YamlNode& node, YamlNode::Kind kind, const std::string& what) {
  if (node.is(kind)) return true;
  diags_.error("schedule-kind", node.loc, "{} must be {}, but is {}", what, kind_name(kind), kind_name(node.kind));
  return false;
}

std::optional<std::string> YamlValues::word(const YamlNode& node, const std::string& what) {
  if (!has_kind(node, YamlNode::Kind::Scalar, what)) return {};
  if (!node.text.empty()) return node.text;
  diags_.error("schedule-empty", node.loc, "{} is empty", what);
  return {};
}

/// Parses the whole text as a decimal integer.
static std::optional<int64_t> parse_int(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

std::optional<int64_t> YamlValues::integer(const YamlNode& node, const std::string& what, int64_t least, int64_t most) {
  if (!has_kind(node, YamlNode::Kind::Scalar, what)) return {};
  const std::optional<int64_t> value = node.quoted ? std::nullopt : parse_int(node.text);
  if (!value) {
    diags_.error("schedule-integer", node.loc, "{} must be an integer, not '{}'", what, printable(node.text));
    return {};
  }
  if (*value >= least && *value <= most) return value;
  diags_.error("schedule-range", node.loc, "{} must be {}{}, not {}", what, least,
               most == INT64_MAX ? " or more"
               : most == least   ? ""
                                 : " to " + std::to_string(most),
               *value);
  return {};
}

std::optional<double> YamlValues::number(const YamlNode& node, const std::string& what, double least, double most) {
  if (!has_kind(node, YamlNode::Kind::Scalar, what)) return {};
  double value = 0;
  const char* last = node.text.data() + node.text.size();
  const auto [end, error] = std::from_chars(node.text.data(), last, value);
  if (node.quoted || error != std::errc() || end != last) {
    diags_.error("schedule-number", node.loc, "{} must be a number, not '{}'", what, printable(node.text));
    return {};
  }
  if (value >= least && value <= most) return value;
  diags_.error("schedule-number-range", node.loc, "{} must be {} to {}, not {}", what, shortest(least), shortest(most),
               printable(node.text));
  return {};
}

std::optional<size_t> YamlValues::choice(const YamlNode& node, const std::string& what,
                                         const std::vector<std::string>& words) {
  const std::optional<std::string> given = word(node, what);
  if (!given) return {};
  for (size_t i = 0; i < words.size(); ++i)
    if (*given == words[i]) return i;
  diags_.error("schedule-word", node.loc, "{} must be {}, not '{}'{}", what, join(words, " or "), printable(*given),
               did_you_mean(*given, words));
  return {};
}

std::optional<std::vector<int64_t>> YamlValues::integers(const YamlNode& node, const std::string& what, int64_t least,
                                                         int64_t most) {
  if (!node.is(YamlNode::Kind::List)) {
    const std::optional<int64_t> value = integer(node, what, least, most);
    if (!value) return {};
    return std::vector<int64_t>{*value};
  }
  std::vector<int64_t> values;
  for (const YamlNode& item : node.items)
    if (const std::optional<int64_t> value = integer(item, "each entry of " + what, least, most))
      values.push_back(*value);
  if (values.size() == node.items.size() && !values.empty()) return values;
  if (node.items.empty()) diags_.error("schedule-empty-list", node.loc, "{} is an empty list", what);
  return {};
}

/// True for an integer after multiplication with a unit: 1.001 times 10^9 is 1000999999.9999999 in floating point.
static bool is_whole(double number) { return std::abs(number - std::round(number)) <= number * 0x1p-51; }

std::optional<int64_t> YamlValues::bytes(const YamlNode& node, const std::string& what, int64_t least) {
  const std::optional<std::string> text = word(node, what);
  if (!text) return {};
  constexpr int64_t kMost = int64_t{1} << 60,
                    kLarge = 1024;  // in a large size, such as 15.6GiB, fractions of a byte are dropped
  const std::optional<double> bytes = parse_quantity(*text, Quantity::Bytes);
  if (bytes && *bytes <= static_cast<double>(kMost) && (is_whole(*bytes) || *bytes >= kLarge) &&
      std::llround(*bytes) >= least)
    return std::llround(*bytes);
  diags_.error("schedule-bytes", node.loc, "{} must be {}{}, not '{}'", what, example_of(Quantity::Bytes),
               bytes ? format(", a whole number of bytes from {} to {}", least, kMost) : "", printable(*text));
  return {};
}

void YamlValues::keys(const YamlNode& map, const std::string& what, const std::vector<Key>& keys) {
  if (!is_map(map, what)) return;
  std::vector<std::string> known;
  for (const Key& key : keys) known.push_back(key.name);
  std::vector<bool> seen(keys.size());
  for (const auto& [key, value] : map.entries) {
    bool found = false;
    for (size_t i = 0; i < keys.size() && key.is(YamlNode::Kind::Scalar); ++i)
      if (key.text == keys[i].name) {
        found = seen[i] = true;
        keys[i].read(value);
      }
    if (!found)
      diags_.error("unknown-key", key.loc, "{} has no key '{}'{}", what, printable(key.text),
                   did_you_mean(key.text, known));
  }
  for (size_t i = 0; i < keys.size(); ++i)
    if (keys[i].required && !seen[i]) diags_.error("missing-key", map.loc, "{} needs the key '{}'", what, keys[i].name);
}

void YamlValues::names(
    const YamlNode& map, const std::string& what,
    const std::function<void(const std::string& name, const YamlNode& key, const YamlNode& value)>& read) {
  if (!is_map(map, what)) return;
  for (const auto& [key, value] : map.entries)
    if (const std::optional<std::string> name = word(key, "a key of " + what)) read(*name, key, value);
}

}  // namespace weftc
