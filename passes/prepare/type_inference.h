// Types of all values of a graph (type_inference.cpp says how), under what is known of its run-time lengths before.
#pragma once
#include "passes/prepare/known_lengths.h"

namespace weftc {

/// Types the module's graph under what is known; what the model says. `is_trial`: lengths that ops take for ones of
/// smaller bounds are only noted.
KnownLengths infer_graph(Module& module, Diags& diags, const KnownLengths& known, bool is_trial);

}  // namespace weftc
