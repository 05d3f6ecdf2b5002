// What types have to say of the pairs of `state:`, once they are known.
#pragma once
#include "ir/module.h"

namespace weftc {

/// Reports states whose input and output are not one buffer, and such that share a length but grow apart.
void check_states(const Module& module, Diags& diags);

}  // namespace weftc
