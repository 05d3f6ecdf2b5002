// Finds better choices for a region. Memory has a price at each time: the region is solved with prices, which rise
// where too much is used and fall where memory is left (Lagrangian relaxation; the steps are Polyak's, 1969). A bound
// with prices is a bound: choices that keep the limit cost no more with prices than without.
#pragma once
#include <random>

#include "passes/partition/beam_search.h"

namespace weftc {

struct RegionEffort {
  double entries = 1e4;    // of a table
  size_t width = 100;      // of the beam
  int rounds = 8;          // of prices
  bool is_merging = true;  // false: choices that differ in their memory alone are all kept, so that proofs hold
};

struct RegionResult {
  std::vector<int> choices;  // of the graph, by node of the region; empty: no choices are better
  bool is_better = false;    // than the present ones, not as good
  bool is_complete = false;  // nothing better than the best known exists
  double lower_bound;        // on the cost of the region's nodes and edges and of those that leave it
};

/// The state of a search besides the graph; one for each thread.
struct SearchState {
  SearchState(const SearchGraph& graph, Assignment start, uint64_t seed, SearchBudget most)
      : assignment(std::move(start)),
        prices(graph.room.size(), 0),
        place(graph.costs.size(), -1),
        random(seed),
        budget(std::move(most)) {}

  Assignment assignment;
  std::vector<double> prices;  // of memory, by time
  std::vector<int> place;      // for regions
  std::mt19937_64 random;
  SearchBudget budget;
};

/// Searches and changes the prices, not the assignment. If the assignment has forbidden pairs or uses too much memory,
/// any choices without either are better.
RegionResult search_region(const SearchGraph& graph, SearchState& state, const std::vector<int>& nodes,
                           const RegionEffort& effort);

}  // namespace weftc
