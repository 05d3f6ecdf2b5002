// Sets of code points: those named in regular expressions, and operations on them.
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
/// Adds the other case of every letter. Nothing for letters beyond ASCII, whose cases are not known.
std::optional<PointSet> without_case(PointSet set);

/// The set of an escape letter: d, s or w; a capital letter gives the complement.
std::optional<PointSet> escaped_set(char letter);
/// The set of a POSIX name: "alpha".
std::optional<PointSet> posix_set(std::string_view name);

}  // namespace weftc
