// Problems of "choose one strategy for each node" in the form of the contest IOPDDL, as JSON or compressed by gzip:
// {"problem": {"name", "nodes": {"intervals", "costs", "usages"}, "edges": {"nodes", "costs"}, "usage_limit"}}.
#pragma once
#include <optional>

#include "ir/base/diag.h"
#include "passes/partition/problem.h"

namespace weftc {

struct PartitionCase {
  std::string name;
  PartitionProblem problem;
};

/// Is it compressed, or is the first key of its JSON `problem`?
bool is_partition_file(const std::string& file);

/// The problem, with all numbers within bounds; nothing after reporting.
std::optional<PartitionCase> read_partition_file(const std::string& file, Diags& diags);

}  // namespace weftc
