// Values that loops carry from trip to trip, updated where they lie.
#pragma once
#include <vector>

#include "ir/plan.h"

namespace weftc {

/// Makes steps write the next trip's value of a Loop where the present one lies, and its first value where the loop
/// begins, as far as that is legal; the copies between them are gone. The buffers that are updated in place.
std::vector<BufferId> update_loops(Plan& plan);

}  // namespace weftc
