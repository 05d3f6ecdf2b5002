// Neighbourhoods of random nodes.
#include "passes/partition/neighbourhood.h"

#include <algorithm>
#include <numeric>

namespace weftc {

namespace {

class NeighbourhoodGrowth {
 public:
  NeighbourhoodGrowth(const SearchGraph& graph, SearchState& state, int count)
      : graph_(graph), state_(state), count_(static_cast<size_t>(count)), is_taken_(graph.costs.size(), 0) {}

  std::vector<int> run() {
    if (state_.random() % 3 == 0) seeds_ = nodes_at_a_priced_time();
    const size_t piece = state_.random() % 3 == 0 ? std::max<size_t>(5, count_ / (2 + state_.random() % 8)) : count_;
    for (size_t misses = 0; nodes_.size() < count_ && misses < 100;) {
      const int seed = next_seed();
      if (is_taken_[seed])
        ++misses;
      else
        grow(seed, std::min(count_, nodes_.size() + piece));
    }
    return std::move(nodes_);
  }

 private:
  int next_seed() {
    if (seeds_.empty()) return static_cast<int>(state_.random() % is_taken_.size());
    return seeds_[state_.random() % seeds_.size()];
  }

  std::vector<int> nodes_at_a_priced_time() {
    std::vector<int> times, nodes;
    for (size_t t = 0; t < state_.prices.size(); ++t)
      if (state_.prices[t] > 0) times.push_back(static_cast<int>(t));
    if (times.empty()) return {};
    const int time = times[state_.random() % times.size()];
    for (int i = 0; i < graph_.size(); ++i)
      for (const UsageLease& lease : graph_.leases[i])
        if (lease.first <= time && time < lease.last) nodes.push_back(i);
    return nodes;
  }

  /// Adds nodes that edges lead to, in order of distance or in any order, up to a number in all.
  void grow(int seed, size_t most) {
    const bool is_by_distance = state_.random() % 2 == 0;
    std::vector<int> front{seed};
    is_taken_[seed] = 1;
    for (size_t head = 0; head < front.size() && nodes_.size() < most; ++head) {
      if (!is_by_distance) std::swap(front[head], front[head + state_.random() % (front.size() - head)]);
      const int node = front[head];
      nodes_.push_back(node);
      const size_t before = front.size();
      for (const SearchGraph::Neighbour& next : graph_.neighbours[node]) {
        if (is_taken_[next.node]) continue;
        is_taken_[next.node] = 1;
        front.push_back(next.node);
      }
      std::shuffle(front.begin() + static_cast<std::ptrdiff_t>(before), front.end(), state_.random);
    }
  }

  const SearchGraph& graph_;
  SearchState& state_;
  const size_t count_;
  std::vector<char> is_taken_;
  std::vector<int> seeds_, nodes_;
};

}  // namespace

std::vector<int> neighbourhood(const SearchGraph& graph, SearchState& state, int count) {
  if (count < graph.size()) return NeighbourhoodGrowth(graph, state, count).run();
  std::vector<int> all(graph.costs.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace weftc
