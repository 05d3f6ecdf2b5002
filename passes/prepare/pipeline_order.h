// The order in which stages run micro-batches: GPipe, 1F1B, or the table of the schedule (P2).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/schedule.h"

namespace weftc {

/// An op of stage `to` reads a result of stage `from`.
struct StageRead {
  int from, to;
  std::string value, node;
  bool same_place;  // through memory, without a transfer
};

/// One list for all ranks. Reports a table with missing, repeated or descending entries, or with a stage in front of
/// one whose result it reads.
std::optional<Pipeline> pipeline_order(const Schedule& schedule, const std::vector<StageRead>& reads, Diags& diags);

}  // namespace weftc
