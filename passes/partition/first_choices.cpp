// The first choices, and how they are brought within the limit of memory.
#include "passes/partition/first_choices.h"

#include <algorithm>
#include <set>

#include "passes/partition/neighbourhood.h"

namespace weftc {

namespace {

/// The memory that each choice takes, each time weighed by the memory that there is.
std::vector<std::vector<double>> weighed_memory(const SearchGraph& graph, const std::vector<double>& weights) {
  std::vector<double> until(weights.size() + 1, 0);
  for (size_t t = 0; t < weights.size(); ++t) until[t + 1] = until[t] + weights[t];
  std::vector<std::vector<double>> result(graph.costs.size());
  for (int i = 0; i < graph.size(); ++i) {
    result[i].assign(graph.costs[i].size(), 0);
    for (const UsageLease& lease : graph.leases[i])
      for (size_t x = 0; x < lease.usage.size(); ++x)
        result[i][x] += (until[lease.last] - until[lease.first]) * static_cast<double>(lease.usage[x]);
  }
  return result;
}

std::vector<double> weights_of_times(const SearchGraph& graph) {
  std::vector<double> weights;
  for (const int64_t room : graph.room) weights.push_back(1.0 / static_cast<double>(std::max<int64_t>(1, room)));
  return weights;
}

class FirstChoices {
 public:
  FirstChoices(const SearchGraph& graph, std::mt19937_64& random, double noise)
      : graph_(graph),
        weights_(weighed_memory(graph, weights_of_times(graph))),
        allowed_(graph.costs.size()),
        left_(graph.costs.size()),
        is_done_(graph.costs.size(), 0) {
    for (int i = 0; i < graph.size(); ++i) {
      for (double& weight : weights_[i]) weight *= 1 + noise * static_cast<double>(random() % 1000);
      for (const double cost : graph.costs[i]) allowed_[i].push_back(cost < SearchGraph::kForbidden);
      left_[i] = static_cast<int>(std::count(allowed_[i].begin(), allowed_[i].end(), 1));
      queue_.insert({left_[i], i});
    }
  }

  std::vector<int> run() {
    std::vector<int> choices(graph_.costs.size(), 0);
    while (!queue_.empty()) {
      const int node = queue_.begin()->second;
      queue_.erase(queue_.begin());
      is_done_[node] = 1;
      int best = -1;
      for (int x = 0; x < graph_.choice_count(node); ++x)
        if ((allowed_[node][x] || left_[node] == 0) && (best < 0 || weights_[node][x] < weights_[node][best])) best = x;
      choices[node] = best;
      std::fill(allowed_[node].begin(), allowed_[node].end(), 0);
      allowed_[node][best] = 1;
      remove_unsupported(node);
    }
    return choices;
  }

 private:
  void remove_unsupported(int from) {
    std::vector<int> changed{from};
    while (!changed.empty()) {
      const int node = changed.back();
      changed.pop_back();
      for (const SearchGraph::Neighbour& next : graph_.neighbours[node])
        if (!is_done_[next.node] && narrow(node, next) && left_[next.node] > 0) changed.push_back(next.node);
    }
  }

  bool narrow(int node, const SearchGraph::Neighbour& next) {
    const int before = left_[next.node];
    const auto goes = [&](int y) {
      for (int x = 0; x < graph_.choice_count(node); ++x)
        if (allowed_[node][x] && graph_.edge_cost(next, x, y) < SearchGraph::kForbidden) return true;
      return false;
    };
    for (int y = 0; y < graph_.choice_count(next.node); ++y)
      if (allowed_[next.node][y] && !goes(y)) allowed_[next.node][y] = 0, --left_[next.node];
    if (left_[next.node] == before) return false;
    queue_.erase({before, next.node});
    queue_.insert({left_[next.node], next.node});
    return true;
  }

  const SearchGraph& graph_;
  std::vector<std::vector<double>> weights_;
  std::vector<std::vector<char>> allowed_;
  std::vector<int> left_;
  std::vector<char> is_done_;
  std::set<std::pair<int, int>> queue_;  // choices left, node
};

/// Sets all costs to 0, except those of forbidden pairs.
void forget_costs(Region& region) {
  for (std::vector<double>& of_node : region.costs) std::fill(of_node.begin(), of_node.end(), 0.0);
  for (Region::Edge& edge : region.edges)
    for (double& cost : edge.costs) cost = cost >= SearchGraph::kForbidden ? cost : 0;
}

}  // namespace

std::vector<int> first_choices(const SearchGraph& graph, std::mt19937_64& random, double noise) {
  return FirstChoices(graph, random, noise).run();
}

void free_memory(const SearchGraph& graph, SearchState& state) {
  std::vector<double> weights = weights_of_times(graph);
  for (int tries = 0; tries < 1000 && state.assignment.excess() > 0 && !state.budget.is_over(); ++tries) {
    for (size_t t = 0; t < weights.size(); ++t)
      if (state.assignment.slack[t] < 0) weights[t] *= 1.1;
    Region region(graph, state.assignment, neighbourhood(graph, state, 20 + static_cast<int>(state.random() % 300)),
                  state.place);
    state.budget.spend(region.work());
    forget_costs(region);
    std::vector<double> prices;
    for (const Region::Time& time : region.times) {
      prices.push_back(0);
      for (int t = time.first; t < time.last; ++t) prices.back() += weights[t];
    }
    std::vector<std::vector<double>> costs = region.costs;
    region.add_prices(prices, costs);
    MiniBuckets buckets(region, 1e4);
    const double bound = buckets.bound(costs, state.budget);
    const BeamLimits limits{20, SearchGraph::kForbidden / 2, true};
    const BeamResult beam = search_beam(buckets, region, bound, limits, state.random, state.budget);
    if (beam.found.empty()) continue;
    const auto& picks = beam.found[0].picks;
    state.assignment.change(graph, region.nodes, region.choices_of({picks.begin(), picks.end()}));
  }
}

}  // namespace weftc
