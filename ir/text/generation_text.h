// The loop over tokens of a module as attributes; the text form prints and parses them.
#pragma once
#include "ir/graph.h"
#include "ir/module.h"

namespace weftc {

/// Attributes that differ from their defaults, sorted by name.
Attrs attrs_of(const Generation& generation);
/// The inverse. Nothing if an attribute is unknown or of another kind; its name is then in `wrong`.
std::optional<Generation> generation_of(const Attrs& attrs, std::string& wrong);

}  // namespace weftc
