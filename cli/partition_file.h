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

/// The text of a file of problems, compressed or not; nullopt after reporting.
std::optional<std::string> read_problem_text(const std::string& file, Diags& diags);

/// Whether `problem` is the first key of the JSON.
bool is_partition(std::string_view text);

/// The problem of a file's text, with all numbers within bounds; nullopt after reporting.
std::optional<PartitionCase> read_partition(const std::string& file, const std::string& text, Diags& diags);

}  // namespace weftc
