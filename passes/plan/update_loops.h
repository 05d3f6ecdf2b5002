// Values that loops carry from trip to trip, updated where they lie.
#pragma once
#include <vector>

#include "ir/plan.h"

namespace weftc {

/// A value that lies where the one lies that it is made of.
struct InPlaceUpdate {
  BufferId old, next;
};

/// Marks the copies of Loops that need not move anything: of the value for the next trip to where the present one lies,
/// and of what a loop starts from. The values that trips make in place.
std::vector<InPlaceUpdate> update_loops(Plan& plan);

/// True if a launch reads of `old` only the elements that it writes of `next`, and writes each behind that.
bool is_by_element(const Plan& plan, const Step& step, BufferId old, BufferId next);

}  // namespace weftc
