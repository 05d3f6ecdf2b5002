// The part of the proof about memory: no two conflicting accesses without a path between them, and every read finds the
// value that was written for it.
#pragma once
#include <string>
#include <vector>

#include "ir/plan_events.h"

namespace weftc {

/// `events` must be without violations and acyclic.
std::vector<std::string> prove_memory(const PlanEvents& events);

}  // namespace weftc
