// What is known when the program is packed is stored in the layout its readers want: no slice at run time (L7).
#pragma once
#include "ir/module.h"

namespace weftc {

/// Replaces local slices of constants, coordinate numbers and random draws, also behind transposes and pointwise ops of
/// these alone, by sources that have the sliced layout. Of the slices at the top, looks only at ops added since the
/// graph had `first_op` ids.
void store_sliced_sources(Module& module, Graph& graph, size_t first_op = 0);

}  // namespace weftc
