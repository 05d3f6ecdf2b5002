// The loop over tokens of a module as attributes, as the text form shows and reads them.
#pragma once
#include "ir/graph.h"
#include "ir/module.h"

namespace weftc {

/// What is not as it is without being said, sorted by name.
Attrs attrs_of(const Generation& generation);
/// The same backwards; nothing where an attribute is unknown or of another kind, whose name is then in `wrong`.
std::optional<Generation> generation_of(const Attrs& attrs, std::string& wrong);

}  // namespace weftc
