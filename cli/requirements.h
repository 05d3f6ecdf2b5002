// What a program wants of the lengths of its requests: `weft inspect --requirements`.
#pragma once
#include "ir/plan.h"

namespace weftc {

/// Prints the lengths that a request or data decides with their bounds, and what nodes and states demand of them, as
/// lines for people or as JSON.
void print_requirements(const Plan& plan, bool json);

}  // namespace weftc
