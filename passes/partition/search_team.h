// Searches of one graph side by side, which tell each other what they find.
#pragma once
#include <limits>
#include <mutex>

#include "passes/partition/region_search.h"

namespace weftc {

struct SearchResult {
  std::vector<int> choices;  // of the graph; empty: none found
  double cost = std::numeric_limits<double>::infinity();
  double lower_bound = -std::numeric_limits<double>::infinity();
  bool is_complete = false;  // the cost is the least, or there are no choices
};

struct SearchEffort {
  int threads = 1;
  uint64_t seed = 1;
  double gap = 0;  // of the cost: a bound that is as near to it is as good as a proof
  double work = std::numeric_limits<double>::infinity();  // of each thread at most (SearchBudget)
};

/// Until it is proved, or the work is done, or `is_late`. What is narrow enough is solved by eliminating all of it
/// first. With one thread and without `is_late` always the same.
SearchResult search_graph(const SearchGraph& graph, const SearchEffort& effort, const std::function<bool()>& is_late);

}  // namespace weftc
