// Checks the pairs of `state:` once types are known.
#pragma once
#include "ir/module.h"

namespace weftc {

/// Reports states whose input and output are not one buffer, and states that share a length but grow differently.
void check_states(const Module& module, Diags& diags);

}  // namespace weftc
