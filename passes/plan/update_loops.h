// Values that loops carry from trip to trip, updated where they lie.
#pragma once
#include <vector>

#include "ir/plan.h"

namespace weftc {

/// A new value that overwrites the old value that it is computed from.
struct InPlaceUpdate {
  BufferId old, next;
};

/// Marks the copies of Loops that need not move anything: from the value of the next trip to that of the present one,
/// and from a loop's initial value. Returns the values that trips update in place.
std::vector<InPlaceUpdate> update_loops(Plan& plan);

/// True if a launch reads, for each element of `next` that it writes, only that element of `old`, and reads it before
/// it writes.
bool is_by_element(const Plan& plan, const Step& step, BufferId old, BufferId next);

}  // namespace weftc
