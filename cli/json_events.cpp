// JSON as events, with positions.
#include "cli/json_events.h"

#include <algorithm>
#include <iterator>

namespace weftc {

namespace {

/// Walks through a text and notes how far it has come, which nlohmann-json tells only of errors.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  reference operator*() const { return *at; }
  Cursor& operator++() {
    *reached = ++at;
    return *this;
  }
  bool operator==(const Cursor& other) const { return at == other.at; }
  bool operator!=(const Cursor& other) const { return at != other.at; }

  const char* at;
  const char** reached;
};

}  // namespace

bool read_json_events(std::string_view text, const char*& reached, nlohmann::json_sax<nlohmann::json>& handler) {
  const char* const end = text.data() + text.size();
  reached = text.data();
  return nlohmann::json::sax_parse(Cursor{reached, &reached}, Cursor{end, &reached}, &handler);
}

std::string json_reason(const std::string& text) {
  size_t begin = text.find("] "), end = text.rfind("; last read: ");
  begin = begin == std::string::npos ? 0 : begin + 2;
  if (text.compare(begin, 11, "parse error") == 0) begin = text.find(": ", begin) + 2;
  return text.substr(begin, end == std::string::npos ? end : end - begin);
}

Loc json_place(const std::string& file, std::string_view text, size_t at) {
  constexpr size_t kLongestLine = 200;  // that a message shows
  at = std::min(at, text.size());
  const std::string_view before = text.substr(0, at);
  const size_t begin = before.rfind('\n') + 1;  // npos + 1 is 0
  const std::string_view line = text.substr(begin, text.find('\n', at) - begin);
  const int number = 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n'));
  const std::string shown = line.size() > kLongestLine ? "" : printable(line);
  const size_t column = shown.empty() ? at - begin : printable(text.substr(begin, at - begin)).size();
  return Loc::text(file, number, 1 + static_cast<int>(column), shown);
}

}  // namespace weftc
