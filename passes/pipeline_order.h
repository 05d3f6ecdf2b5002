// The order in which stages run micro-batches: GPipe, 1F1B, or the table of the schedule (DESIGN P2).
#pragma once
#include <optional>

#include "ir/module.h"
#include "ir/schedule.h"

namespace weft {

/// One list for all ranks. Reports a table with missing, repeated or descending entries.
std::optional<Pipeline> pipeline_order(const Schedule& schedule, Diags& diags);

}  // namespace weft
