// Which nodes a search changes together.
#pragma once
#include "passes/partition/region_search.h"

namespace weftc {

/// So many nodes, or all: pieces that edges connect, around nodes anywhere or around nodes that take memory at the same
/// time, one that has a price.
std::vector<int> neighbourhood(const SearchGraph& graph, SearchState& state, int count);

}  // namespace weftc
