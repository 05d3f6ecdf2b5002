// Represents names of nodes as a few patterns, as a person would write them.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace weftc {

/// Patterns of a schedule that match all wanted names and none of the others, in the order of the names. An example is
/// "h.{0..5}.*", for all names that begin with "h.0." to "h.5.". Returns nullopt if a name cannot be written, because
/// it also matches another one, or is a pattern that does not match itself.
std::optional<std::vector<std::string>> patterns_of(const std::vector<std::string>& wanted,
                                                    const std::set<std::string>& others);

}  // namespace weftc
