// The named sets contain ASCII only, as in RE2.
#include "ir/ops/strings/regex_sets.h"

#include <algorithm>

namespace weftc {

PointSet sorted_set(PointSet set) {
  std::sort(set.begin(), set.end(), [](const PointRange& a, const PointRange& b) { return a.first < b.first; });
  PointSet joined;
  for (const PointRange& range : set) {
    if (joined.empty() || range.first > joined.back().last + 1)
      joined.push_back(range);
    else
      joined.back().last = std::max(joined.back().last, range.last);
  }
  return joined;
}

PointSet complement(const PointSet& set) {
  PointSet others;
  char32_t next = 0;
  for (const PointRange& range : sorted_set(set)) {
    if (range.first > next) others.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= 0x10ffff) others.push_back({next, 0x10ffff});
  return others;
}

/// The part of a range in [first, last], moved by `delta`.
static void add_moved(PointSet& set, const PointRange& range, char32_t first, char32_t last, int delta) {
  const char32_t from = std::max(range.first, first), to = std::min(range.last, last);
  if (from <= to)
    set.push_back(
        {static_cast<char32_t>(static_cast<int>(from) + delta), static_cast<char32_t>(static_cast<int>(to) + delta)});
}

std::optional<PointSet> without_case(PointSet set) {
  constexpr char32_t kLongS = 0x17f, kKelvin = 0x212a;  // letters beyond ASCII whose other case is in ASCII
  PointSet all = set;
  for (const PointRange& range : set) {
    const bool is_rest = range.first <= 0x80 && range.last == 0x10ffff;  // contains both cases of all letters
    if (range.last >= 0x80 && !is_rest) return {};
    add_moved(all, range, U'A', U'Z', 32);
    add_moved(all, range, U'a', U'z', -32);
  }
  const auto has = [&](char32_t point) {
    return std::any_of(all.begin(), all.end(), [&](const auto& r) { return r.first <= point && point <= r.last; });
  };
  if (has(U's')) all.push_back({kLongS, kLongS});
  if (has(U'k')) all.push_back({kKelvin, kKelvin});
  return sorted_set(all);
}

namespace {
struct NamedSet {
  const char* name;
  PointSet set;
};
const NamedSet kEscapes[] = {
    {"d", {{'0', '9'}}},
    {"s", {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}}},
    {"w", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
};
const NamedSet kPosix[] = {
    {"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
    {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
    {"ascii", {{0, 0x7f}}},
    {"blank", {{'\t', '\t'}, {' ', ' '}}},
    {"cntrl", {{0, 0x1f}, {0x7f, 0x7f}}},
    {"digit", {{'0', '9'}}},
    {"graph", {{'!', '~'}}},
    {"lower", {{'a', 'z'}}},
    {"print", {{' ', '~'}}},
    {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
    {"space", {{'\t', '\r'}, {' ', ' '}}},
    {"upper", {{'A', 'Z'}}},
    {"word", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
    {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
};
}  // namespace

std::optional<PointSet> escaped_set(char letter) {
  for (const NamedSet& named : kEscapes)
    if (named.name[0] == letter) return named.set;
  return {};
}

std::optional<PointSet> posix_set(std::string_view name) {
  for (const NamedSet& named : kPosix)
    if (name == named.name) return named.set;
  return {};
}

}  // namespace weftc
