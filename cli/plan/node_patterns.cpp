#include "cli/plan/node_patterns.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "ir/name_pattern.h"

namespace weftc {

namespace {

/// In a pattern a dot also matches a slash, and a leading slash may be omitted: names that differ only in these are the
/// same.
std::string as_read(std::string name) {
  if (name.starts_with('/')) name.erase(0, 1);
  std::ranges::replace(name, '/', '.');
  return name;
}

bool is_digit_at(const std::string& text, size_t at) {
  return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
}

/// Some names by their normalized form.
class ReadNames {
 public:
  explicit ReadNames(const std::set<std::string>& names) : written_(names) {
    for (const std::string& name : names) names_.insert(as_read(name));
  }
  bool has_start(const std::string& start) const {
    const std::string read = as_read(start);
    const auto at = names_.lower_bound(read);
    return at != names_.end() && at->starts_with(read);
  }
  bool has(const std::string& name) const { return names_.contains(as_read(name)); }
  bool has_match(const NamePattern& pattern) const {
    return std::ranges::any_of(written_, [&](const std::string& name) { return pattern.match(name).has_value(); });
  }

 private:
  const std::set<std::string>& written_;
  std::set<std::string> names_;
};

/// The shortest pattern like "h.0.*" that matches none of the others, or else the name itself. Returns nullopt if the
/// name also matches another one.
std::optional<std::string> pattern_of(const std::string& name, const ReadNames& others) {
  const size_t plain = std::min(name.find_first_of("*{}"), name.size());  // the part without pattern characters
  for (size_t i = 1; i + 1 < name.size() && i < plain; ++i)
    if ((name[i] == '.' || name[i] == '/') && !others.has_start(name.substr(0, i + 1)))
      return name.substr(0, i + 1) + "*";
  const NamePattern itself(name);
  return itself.match(name) && !others.has(name) && !others.has_match(itself) ? std::optional(name) : std::nullopt;
}

/// A pattern as a number between two texts.
struct Numbered {
  std::pair<std::string, std::string> around;
  int number = 0;
};

std::vector<Numbered> numbers_in(const std::string& pattern) {
  constexpr size_t kMostDigits = 6;
  std::vector<Numbered> found;
  if (pattern.find('{') != std::string::npos) return found;
  for (size_t begin = 0; begin < pattern.size(); ++begin) {
    if (!is_digit_at(pattern, begin) || (begin > 0 && is_digit_at(pattern, begin - 1))) continue;
    size_t end = begin;
    while (is_digit_at(pattern, end)) ++end;
    const bool is_padded = pattern[begin] == '0' && end > begin + 1;
    const bool is_open = end < pattern.size() && pattern[end] == '*';  // the number may have more digits
    if (end - begin <= kMostDigits && !is_padded && !is_open)
      found.push_back({{pattern.substr(0, begin), pattern.substr(end)}, std::stoi(pattern.substr(begin, end - begin))});
  }
  return found;
}

/// The longest stretch of patterns that differ in one number, which counts up; empty without two of them.
std::vector<std::string> longest_count(const std::vector<std::string>& patterns, std::string& joined) {
  std::map<std::pair<std::string, std::string>, std::map<int, std::string>> groups;
  for (const std::string& pattern : patterns)
    for (const Numbered& numbered : numbers_in(pattern)) groups[numbered.around][numbered.number] = pattern;
  std::vector<std::string> longest;
  for (const auto& [around, by_number] : groups)
    for (auto first = by_number.begin(); first != by_number.end();) {
      std::vector<std::string> count;
      int last = first->first;
      auto at = first;
      for (; at != by_number.end() && at->first <= last + 1; ++at) count.push_back(at->second), last = at->first;
      if (count.size() > std::max<size_t>(longest.size(), 1)) {
        joined = around.first + "{" + std::to_string(first->first) + ".." + std::to_string(last) + "}" + around.second;
        longest = std::move(count);
      }
      first = at;
    }
  return longest;
}

/// Patterns that count up become one, in the place of the first of them.
void join_counts(std::vector<std::string>& patterns) {
  std::string joined;
  for (;;) {
    const std::vector<std::string> count = longest_count(patterns, joined);
    if (count.empty()) return;
    const auto is_in = [&](const std::string& pattern) { return std::ranges::count(count, pattern) > 0; };
    *std::ranges::find_if(patterns, is_in) = joined;
    std::erase_if(patterns, is_in);
  }
}

}  // namespace

std::optional<std::vector<std::string>> patterns_of(const std::vector<std::string>& wanted,
                                                    const std::set<std::string>& others) {
  const ReadNames read(others);
  std::vector<std::string> patterns;
  std::set<std::string> known;
  for (const std::string& name : wanted) {
    const std::optional<std::string> pattern = pattern_of(name, read);
    if (!pattern) return {};
    if (known.insert(*pattern).second) patterns.push_back(*pattern);
  }
  join_counts(patterns);
  return patterns;
}

}  // namespace weftc
