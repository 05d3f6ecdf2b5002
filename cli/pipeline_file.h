// Pipeline problems as a JSON file: {"cases": [{"name", "num_devices", "memory_limit", "blocks": [{"id", "devices",
// "time", "memory", "deps"}]}]}. Other members are the author's notes, and are ignored.
#pragma once
#include <optional>

#include "ir/base/diag.h"
#include "passes/pipelining/problem.h"

namespace weftc {

struct PipelineCase {
  std::string name;
  PipelineProblem problem;
  std::vector<int64_t> ids;  // of the blocks, as in the file
  Loc loc;                   // of the case
  std::vector<Loc> block_locs;
};

/// The cases of a file's text; nullopt after reporting. Their numbers are within bounds; `report_faults` checks each
/// problem as a whole.
std::optional<std::vector<PipelineCase>> read_pipelines(const std::string& file, const std::string& text, Diags& diags);

/// Reports why a case has no schedule.
void report_faults(const PipelineCase& problem, Diags& diags);

}  // namespace weftc
