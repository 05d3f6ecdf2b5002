// An order of ops in which the branches of a graph follow one another, whatever their order in the file.
#pragma once
#include <vector>

#include "ir/graph.h"

namespace weftc {

/// The wanted ops of a graph (by op), each after those that it depends on, and as shortly before its readers as
/// possible. If an op joins several branches, the longest comes first, and each branch ends before the next begins.
std::vector<OpId> branches_in_line(const Graph& graph, const std::vector<bool>& is_wanted);

}  // namespace weftc
