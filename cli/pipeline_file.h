// Pipeline problems as a JSON file: {"cases": [{"name", "num_devices", "memory_limit", "blocks": [{"id", "devices",
// "time", "memory", "deps"}]}]}. Other members are notes of whoever wrote it, and are passed over.
#pragma once
#include <optional>

#include "ir/base/diag.h"
#include "passes/pipelining/problem.h"

namespace weftc {

struct PipelineCase {
  std::string name;
  PipelineProblem problem;
  std::vector<int64_t> ids;  // of the blocks, as the file has them
  Loc loc;                   // of the case
  std::vector<Loc> block_locs;
};

/// The cases of a file's text; nothing after reporting. Their numbers are within bounds; what is wrong with a problem
/// as a whole is `report_faults`.
std::optional<std::vector<PipelineCase>> read_pipelines(const std::string& file, const std::string& text, Diags& diags);

/// Reports why a case has no schedule.
void report_faults(const PipelineCase& problem, Diags& diags);

}  // namespace weftc
