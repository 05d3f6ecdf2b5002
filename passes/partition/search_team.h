// Searches of one graph in parallel, which share their findings.
#pragma once
#include <limits>
#include <mutex>

#include "passes/partition/region_search.h"

namespace weftc {

struct SearchResult {
  std::vector<int> choices;  // of the graph; empty: no choices were found
  double cost = std::numeric_limits<double>::infinity();
  double lower_bound = -std::numeric_limits<double>::infinity();
  bool is_complete = false;  // the cost is the least, or there are no choices
};

struct SearchEffort {
  int threads = 1;
  uint64_t seed = 1;
  double gap = 0;  // as a part of the cost: a bound so near to it is as good as a proof
  double work = std::numeric_limits<double>::infinity();  // of each thread at most (SearchBudget)
};

/// Searches until the optimum is proved, the work is done, or `is_late`. A narrow graph is first solved by eliminating
/// all of it. With one thread and without `is_late` the result is always the same.
SearchResult search_graph(const SearchGraph& graph, const SearchEffort& effort, const std::function<bool()>& is_late);

}  // namespace weftc
