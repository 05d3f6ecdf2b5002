// Reads JSON text as a stream, since traces are long. It uses nlohmann-json, whose header is heavy, so that only
// json_items.cpp includes it.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "ir/base/diag.h"

namespace weftc {

/// A flattened object: numbers and strings by path, such as "args.iteration".
struct JsonItem {
  size_t at = 0;  // where it begins in the text
  std::map<std::string, double> numbers;
  std::map<std::string, std::string> strings;

  /// The value at a path; if it is missing, "" or `otherwise`.
  std::string string(const std::string& path) const;
  double number(const std::string& path, double otherwise) const;
};

/// Calls take() with each object of the list that is the member `list` of the text's object. If take() returns a text,
/// it is the reason to refuse the object. Returns false after reporting (trace-text) refused objects, text that is not
/// JSON, or a missing list.
bool read_json_list(const std::string& file, std::string_view text, const std::string& list,
                    const std::function<std::string(const JsonItem&)>& take, Diags& diags);

/// Reads a text that is one object; without values if the text is not an object.
JsonItem read_json_object(std::string_view text);

}  // namespace weftc
