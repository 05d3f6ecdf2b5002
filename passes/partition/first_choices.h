// Where a search begins: compatible choices that take little memory.
#pragma once
#include "passes/partition/region_search.h"

namespace weftc {

/// Visits node after node, those with the fewest choices left first, and takes the choice of least memory. After each,
/// it removes choices that are compatible with no remaining choice of a neighbour (maintaining arc consistency, Sabin
/// and Freuder, 1994). There may be forbidden pairs among the result.
std::vector<int> first_choices(const SearchGraph& graph, std::mt19937_64& random, double noise);

/// Regions change until the limit of memory holds, or a number of them did not help.
void free_memory(const SearchGraph& graph, SearchState& state);

}  // namespace weftc
