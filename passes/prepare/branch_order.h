// An order of ops in which the branches of a graph stand one after the other, whatever their order in the file.
#pragma once
#include <vector>

#include "ir/graph.h"

namespace weftc {

/// Of the ops of a graph those that are wanted (by op), each behind those that it depends on. What an op reads stands
/// in front of it as late as that allows: of several branches that it joins the longest is the first, and none of them
/// begins before another one has ended.
std::vector<OpId> branches_in_line(const Graph& graph, const std::vector<bool>& is_wanted);

}  // namespace weftc
