// Sets of code points: those that have names in regular expressions, and operations on them.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace weftc {

/// Code points from `first` to `last`.
struct PointRange {
  char32_t first, last;
};
using PointSet = std::vector<PointRange>;

/// In ascending order, without ranges that overlap or touch.
PointSet sorted_set(PointSet set);
/// All code points that are not in the set.
PointSet complement(const PointSet& set);
/// With the other case of every letter. Nothing where that is not known: of letters beyond ASCII.
std::optional<PointSet> without_case(PointSet set);

/// The set that a letter behind a backslash stands for: d, s or w; a capital letter stands for all others.
std::optional<PointSet> escaped_set(char letter);
/// The set that a name of POSIX stands for: "alpha".
std::optional<PointSet> posix_set(std::string_view name);

}  // namespace weftc
