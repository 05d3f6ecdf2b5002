// JSON text, read from front to back without keeping it: traces are long. nlohmann-json does so; its header is heavy,
// so only json_items.cpp includes it.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "ir/base/diag.h"

namespace weftc {

/// An object without its structure: numbers and strings by path, such as "args.iteration".
struct JsonItem {
  size_t at = 0;  // where it begins in the text
  std::map<std::string, double> numbers;
  std::map<std::string, std::string> strings;

  /// Empty, or the other value, if there is none.
  std::string string(const std::string& path) const;
  double number(const std::string& path, double otherwise) const;
};

/// Calls take() with each object of the list that is the member `list` of the text's object; what take() returns, if
/// anything, is why the object is refused. Reports (trace-text) what is refused, is no JSON or has no such list; false
/// then.
bool read_json_list(const std::string& file, std::string_view text, const std::string& list,
                    const std::function<std::string(const JsonItem&)>& take, Diags& diags);

/// A whole text that is one object; without any values if it is none.
JsonItem read_json_object(std::string_view text);

}  // namespace weftc
