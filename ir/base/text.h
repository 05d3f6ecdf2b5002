// Small text functions without knowledge of the compiler.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weftc {

/// Replaces each "{}" of `pattern` by the next argument (strings and integers).
std::string format_strings(std::string_view pattern, std::span<const std::string> arguments);

inline std::string to_text(const std::string& s) { return s; }
inline std::string to_text(const char* s) { return s; }
inline std::string to_text(std::string_view s) { return std::string(s); }
inline std::string to_text(bool b) { return b ? "true" : "false"; }
template <class Number>
std::string to_text(Number n) requires(std::is_arithmetic_v<Number>) {
  return std::to_string(n);
}

template <class... Arguments>
std::string format(std::string_view pattern, const Arguments&... arguments) {
  const std::string texts[] = {to_text(arguments)..., std::string()};
  return format_strings(pattern, {texts, sizeof...(Arguments)});
}

std::string join(const std::vector<std::string>& parts, std::string_view separator);
/// "2x64x256"; "scalar" for no dimensions.
std::string dims_text(const std::vector<int64_t>& dims);
std::vector<std::string> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);

/// The candidate nearest to `word` by edit distance, or "" if none is near enough to be meant.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);
/// ", did you mean 'x'?" or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

/// The shortest decimal text that reads back as the same double.
std::string shortest(double number);
/// Printable form of user text for messages and comments: control characters and non-ASCII bytes become \xNN.
std::string printable(std::string_view text);
/// Double-quoted with \" \\ \n \t \xNN escapes; `unquote` reads it back, false if malformed.
std::string quote(std::string_view text);
bool unquote(std::string_view quoted, std::string& text);

}  // namespace weftc
