// A program's requirements on the lengths of its requests: `weft inspect --requirements`.
#pragma once
#include "ir/plan.h"

namespace weftc {

/// Prints the lengths that a request or data decides, their bounds, and the requirements of nodes and states, as lines
/// for people or as JSON.
void print_requirements(const Plan& plan, bool json);

}  // namespace weftc
