// The proof before emission (P6): a Plan is expanded for all ranks and checked for races, deadlocks and bounds.
#pragma once
#include <string>
#include <vector>

#include "ir/plan.h"

namespace weftc {

/// Everything that is wrong, one line each, naming steps; empty when proved. A violation is a bug of ours.
std::vector<std::string> prove_plan(const Plan& plan);

}  // namespace weftc
