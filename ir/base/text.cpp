// Formatting, splitting, quoting, and the search for the nearest name.
#include "ir/base/text.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>

namespace weftc {

std::string format_strings(std::string_view pattern, std::span<const std::string> arguments) {
  std::string out;
  size_t next = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '{' && i + 1 < pattern.size() && pattern[i + 1] == '}' && next < arguments.size()) {
      out += arguments[next++];
      ++i;
    } else {
      out += pattern[i];
    }
  }
  return out;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i) out += separator;
    out += parts[i];
  }
  return out;
}

std::string dims_text(const std::vector<int64_t>& dims) {
  if (dims.empty()) return "scalar";
  std::vector<std::string> parts;
  for (int64_t d : dims) parts.push_back(std::to_string(d));
  return join(parts, "x");
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view trim(std::string_view text) {
  const char* blank = " \t\r\n";
  const size_t first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

/// Levenshtein's distance, one row at a time.
static size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    // Names of a large model: a distance above the length difference cannot win, so skip the quadratic part.
    const size_t gap = std::max(candidate.size(), word.size()) - std::min(candidate.size(), word.size());
    if (gap >= best_distance) continue;
    const size_t distance = edit_distance(word, candidate);
    if (distance == 0) continue;  // it was refused for another reason
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string best = nearest(word, candidates);
  return best.empty() ? "" : ", did you mean '" + printable(best) + "'?";
}

std::string shortest(double number) {
  char text[40];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, number);
    if (std::strtod(text, nullptr) == number) break;
  }
  return text;
}

static void append_hex(std::string& out, unsigned char c) {
  char text[8];
  std::snprintf(text, sizeof text, "\\x%02x", c);
  out += text;
}

std::string printable(std::string_view text) {
  std::string out;
  for (unsigned char c : text) {
    if (c >= 0x20 && c < 0x7f)
      out += static_cast<char>(c);
    else
      append_hex(out, c);
  }
  return out;
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\')
      out += '\\', out += static_cast<char>(c);
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c >= 0x20 && c < 0x7f)
      out += static_cast<char>(c);
    else
      append_hex(out, c);
  }
  return out + '"';
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool unquote(std::string_view quoted, std::string& text) {
  if (quoted.size() < 2 || quoted.front() != '"' || quoted.back() != '"') return false;
  const std::string_view body = quoted.substr(1, quoted.size() - 2);
  text.clear();
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] == '"') return false;
    if (body[i] != '\\') {
      text += body[i];
      continue;
    }
    if (++i == body.size()) return false;
    if (body[i] == 'n')
      text += '\n';
    else if (body[i] == 't')
      text += '\t';
    else if (body[i] == '"' || body[i] == '\\')
      text += body[i];
    else if (body[i] == 'x' && i + 2 < body.size() && hex_digit(body[i + 1]) >= 0 && hex_digit(body[i + 2]) >= 0) {
      text += static_cast<char>(hex_digit(body[i + 1]) * 16 + hex_digit(body[i + 2]));
      i += 2;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace weftc
