// Types all values of a graph (see type_inference.cpp), under previously known facts about its run-time lengths.
#pragma once
#include "passes/prepare/known_lengths.h"

namespace weftc {

/// Types the module's graph under `known`; returns the facts that the model implies. `is_trial`: lengths that ops take
/// for ones of smaller bounds are only noted.
KnownLengths infer_graph(Module& module, Diags& diags, const KnownLengths& known, bool is_trial);

}  // namespace weftc
