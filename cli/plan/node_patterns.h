// Names of nodes as the few patterns that a person would write.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace weftc {

/// Patterns of a schedule that match all wanted names and none of the others, in the order of the names that they are
/// for: "h.{0..5}.*" of all that begins with h.0., ... h.5. Nothing where a name cannot be written, since it is read as
/// another one too, or is a pattern that does not match itself.
std::optional<std::vector<std::string>> patterns_of(const std::vector<std::string>& wanted,
                                                    const std::set<std::string>& others);

}  // namespace weftc
