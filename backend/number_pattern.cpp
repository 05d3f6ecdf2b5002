// Numbers are runs of digits; those with a leading zero, and long ones, are text.
#include "backend/number_pattern.h"

#include <string_view>

namespace weftc {

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

NumberPattern::NumberPattern(const std::string& from) {
  constexpr size_t kMostDigits = 9;
  for (size_t at = 0; at < from.size();) {
    size_t end = at;
    while (end < from.size() && is_digit(from[end])) ++end;
    const size_t length = end - at;
    if (length == 0) {
      parts.back() += from[at++];
      continue;
    }
    if (length > kMostDigits || (from[at] == '0' && length > 1)) {
      parts.back() += from.substr(at, length);
    } else {
      parts.emplace_back();
      numbers.push_back(std::stoll(from.substr(at, length)));
    }
    at = end;
  }
}

bool has_braces(const std::string& text) { return text.find_first_of("{}") != std::string::npos; }

/// "layer", "4 * layer + 3": a number that is `first` in the first layer, and `step` more in each further layer.
static std::string number_text(int64_t first, int64_t step, int begin) {
  const int64_t rest = first - step * begin;
  std::string text = step == 1 ? "layer" : std::to_string(step) + " * layer";
  if (rest != 0) text += (rest < 0 ? " - " : " + ") + std::to_string(rest < 0 ? -rest : rest);
  return "{" + text + "}";
}

std::optional<std::string> layer_text(const std::vector<std::string>& names, int begin) {
  std::vector<NumberPattern> patterns;
  for (const std::string& name : names) patterns.emplace_back(name);
  const NumberPattern& first = patterns[0];
  std::vector<int64_t> steps(first.numbers.size());
  for (size_t k = 1; k < patterns.size(); ++k) {
    if (!patterns[k].is_like(first)) return {};
    for (size_t n = 0; n < steps.size(); ++n) {
      const int64_t step = patterns[k].numbers[n] - patterns[k - 1].numbers[n];
      if (k > 1 && step != steps[n]) return {};
      steps[n] = step;
    }
  }
  std::string text = first.parts[0];
  for (size_t n = 0; n < steps.size(); ++n)
    text += (steps[n] == 0 ? std::to_string(first.numbers[n]) : number_text(first.numbers[n], steps[n], begin)) +
            first.parts[n + 1];
  return text;
}

std::string without_layer(const std::string& first, const std::string& second, const std::string& instead) {
  const NumberPattern a(first), b(second);
  if (!a.is_like(b)) return first;
  std::string text = a.parts[0];
  for (size_t n = 0; n < a.numbers.size(); ++n) {
    if (a.numbers[n] == b.numbers[n])
      text += std::to_string(a.numbers[n]);
    else if (!instead.empty())
      text += instead;
    else if (!text.empty() && std::string_view("._/-").find(text.back()) != std::string_view::npos)
      text.pop_back();
    text += a.parts[n + 1];
  }
  return text;
}

}  // namespace weftc
