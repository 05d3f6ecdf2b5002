// Finding the schedule's line of a step in manifest.json, for messages about that step.
#include "manifest.h"

#include "failure.h"

namespace weft {

std::string json_string(std::string_view in) {
  std::string out = "\"";
  for (const char c : in) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20)
      out += text("\\u%04x", c);
    else
      out += c;
  }
  return out + "\"";
}

namespace {

/// Walks the objects of a JSON array without building a tree: the manifest is large, and one string of it is wanted.
struct Scanner {
  std::string_view json;
  size_t at = 0;

  /// The next token: a bracket, comma or colon as itself, a string with its opening quote, else a word. Empty at the
  /// end.
  std::string_view next() {
    at = json.find_first_not_of(" \t\r\n", at);
    if (at >= json.size()) return at = json.size(), std::string_view();
    const size_t begin = at;
    if (json[at] == '"') {
      for (++at; at < json.size() && json[at] != '"'; ++at)
        if (json[at] == '\\') ++at;
      const size_t end = at < json.size() ? at : json.size();
      at = end + 1;
      return json.substr(begin, end - begin);
    }
    if (std::string_view("{}[],:").find(json[at]) != std::string_view::npos) return json.substr(at++, 1);
    at = std::min(json.find_first_of("{}[],: \t\r\n\"", at), json.size());
    return json.substr(begin, at - begin);
  }
};

}  // namespace

std::string schedule_line(std::string_view manifest, std::string_view step) {
  const std::string literal = json_string(step), wanted = literal.substr(0, literal.size() - 1);  // as Scanner gives it
  Scanner scanner{manifest};
  int depth = 0, steps_depth = -1;
  std::string_view name, schedule, key;
  for (std::string_view token = scanner.next(); !token.empty(); token = scanner.next()) {
    if (token == "{" || token == "[") {
      ++depth;
      if (token == "[" && key == "\"steps") steps_depth = depth;  // of the program, or of a variant
      if (token == "{" && depth == steps_depth + 1) name = schedule = {};
      key = {};
    } else if (token == "}" || token == "]") {
      if (token == "}" && depth == steps_depth + 1 && name == wanted && !schedule.empty())
        return std::string(schedule.substr(1));
      if (depth == steps_depth) steps_depth = -2;
      --depth;
    } else if (token == ":") {
      continue;
    } else if (token == ",") {
      key = {};
    } else if (token[0] == '"') {
      if (key.empty()) {
        key = token;
      } else if (depth == steps_depth + 1) {
        if (key == "\"name") name = token;
        if (key == "\"schedule") schedule = token;
      }
    }
  }
  return {};
}

}  // namespace weft
