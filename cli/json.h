// JSON text from parts that are JSON text.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "ir/base/naming.h"
#include "ir/base/text.h"

namespace weftc {

/// [a, b]
inline std::string json_list(const std::vector<std::string>& items) { return "[" + join(items, ", ") + "]"; }

/// {"name": value}; values are JSON text already.
inline std::string json_object(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::vector<std::string> items;
  for (const auto& [name, value] : fields) items.push_back(json_string(name) + ": " + value);
  return "{" + join(items, ", ") + "}";
}

/// Each item on a line of its own.
inline std::string json_lines(const std::vector<std::string>& items) {
  return items.empty() ? "[]" : "[\n  " + join(items, ",\n  ") + "\n ]";
}

inline std::string json_strings(const std::vector<std::string>& texts) {
  std::vector<std::string> items;
  for (const std::string& text : texts) items.push_back(json_string(text));
  return json_list(items);
}

}  // namespace weftc
