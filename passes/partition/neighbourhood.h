// Chooses the nodes that a search changes together.
#pragma once
#include "passes/partition/region_search.h"

namespace weftc {

/// `count` nodes, or all if there are fewer: connected pieces around random nodes, or around nodes that take memory at
/// the same time, one with a price.
std::vector<int> neighbourhood(const SearchGraph& graph, SearchState& state, int count);

}  // namespace weftc
