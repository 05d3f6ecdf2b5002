// The order of a few ops of a large graph, without a walk over all of it; also the ops that values depend on.
#pragma once
#include <set>
#include <vector>

#include "ir/graph.h"

namespace weftc {

/// By op: whether one of the values depends on it.
std::vector<bool> ancestors_of(const Graph& graph, const std::vector<ValueId>& values);

/// Live ops of one graph, in its order. Takes time in proportion to the range that holds them, not to the graph.
std::vector<OpId> in_graph_order(const Graph& graph, const std::set<OpId>& ops);

}  // namespace weftc
