// A regular expression as a table that a program walks byte by byte.
#pragma once
#include <optional>

#include "ir/ops/strings/regex.h"

namespace weftc {

/// The columns of a state: the next state for each byte, and whether the string may end here.
inline constexpr int64_t kAutomatonRow = 257;

/// The rows of all states, beginning with the initial one. Nothing if there would be more than 2048 of them, or if
/// finding them takes long.
std::optional<std::vector<int32_t>> automaton_of(const Regex& pattern);

}  // namespace weftc
