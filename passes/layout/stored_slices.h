// Stores values that are known when the program is packed in the layout that readers want: no slice at run time (L7).
#pragma once
#include "ir/module.h"

namespace weftc {

/// Replaces local slices of constants, coordinate numbers and random draws by sources that have the sliced layout. It
/// looks through transposes and pointwise ops of these alone. In the top graph, it handles only slices added since the
/// graph had `first_op` ids.
void store_sliced_sources(Module& module, Graph& graph, size_t first_op = 0);

}  // namespace weftc
