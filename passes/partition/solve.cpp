#include "passes/partition/solve.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <set>

#include "passes/partition/elimination.h"
#include "passes/partition/reduction.h"

namespace weftc {

namespace {

constexpr int64_t kMostEntries = int64_t{1} << 23;        // of a table, for all nodes at once
constexpr int64_t kMostRegionEntries = int64_t{1} << 17;  // of a table, for a region
constexpr int kPriceSteps = 40;
constexpr double kMostPrice = 1e4;  // of the cost without memory: what does not fit then never does

using Clock = std::chrono::steady_clock;

class Solver {
 public:
  Solver(const PartitionProblem& problem, double seconds)
      : reduced_(reduce(problem)),
        problem_(reduced_.problem),
        edges_of_(edges_by_node(problem_)),
        end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {
    for (int n = 0; n < static_cast<int>(problem_.nodes.size()); ++n) all_.push_back(n);
  }

  PartitionSolution run() {
    std::vector<int> choices = cheapest();
    take(choices, minimise(0, choices));
    if (best_.choices.empty()) raise_price(choices);
    if (!best_.choices.empty()) best_.choices = expand(reduced_, best_.choices);
    return std::move(best_);
  }

 private:
  bool is_over() const { return Clock::now() >= end_; }

  /// Each node by itself.
  std::vector<int> cheapest() const {
    std::vector<int> choices;
    for (const PartitionProblem::Node& node : problem_.nodes)
      choices.push_back(static_cast<int>(std::min_element(node.costs.begin(), node.costs.end()) - node.costs.begin()));
    return choices;
  }

  /// Costs of nodes with a price, in units of cost for all the memory that there is, for what they use.
  NodeCosts priced(double price) const {
    NodeCosts costs;
    for (const PartitionProblem::Node& node : problem_.nodes) {
      costs.push_back(node.costs);
      for (size_t c = 0; c < node.usage.size(); ++c)
        costs.back()[c] +=
            static_cast<int64_t>(price * static_cast<double>(node.usage[c]) / static_cast<double>(limit()));
    }
    return costs;
  }
  int64_t limit() const { return std::max<int64_t>(problem_.limit, 1); }

  /// Better choices under a price; no choices that keep the limit cost less than what it gives.
  int64_t minimise(double price, std::vector<int>& choices) {
    const NodeCosts costs = priced(price);
    if (is_narrow_) {
      Elimination whole(problem_, edges_of_, all_, kMostEntries);
      if (const std::optional<int64_t> least = whole.run(costs, choices))
        return *least - static_cast<int64_t>(price * static_cast<double>(most_at_once()));
      is_narrow_ = false;
    }
    improve(costs, choices);
    return 0;
  }

  /// At how many times the limit holds: with one, its price is paid once.
  int64_t most_at_once() const {
    std::set<int64_t> times;
    for (const PartitionProblem::Node& node : problem_.nodes)
      if (!node.usage.empty() && node.first < node.last) times.insert(node.first);
    return static_cast<int64_t>(times.size());
  }

  /// Connected nodes around a random one.
  std::vector<int> region(size_t size) {
    std::vector<int> nodes = {all_[random_() % all_.size()]};
    std::vector<bool> is_in(all_.size(), false);
    is_in[static_cast<size_t>(nodes.front())] = true;
    for (size_t at = 0; at < nodes.size() && nodes.size() < size; ++at)
      for (const int e : edges_of_[static_cast<size_t>(nodes[at])]) {
        const PartitionProblem::Edge& edge = problem_.edges[static_cast<size_t>(e)];
        const int other = edge.a == nodes[at] ? edge.b : edge.a;
        if (is_in[static_cast<size_t>(other)] || nodes.size() >= size) continue;
        is_in[static_cast<size_t>(other)] = true;
        nodes.push_back(other);
      }
    return nodes;
  }

  /// Regions as large as tables allow, until many in a row are at their best.
  void improve(const NodeCosts& costs, std::vector<int>& choices) {
    size_t size = 16;
    for (size_t idle = 0; idle < 2 * all_.size() + 50 && !is_over();) {
      const std::vector<int> nodes = region(size);
      std::vector<int> tried = choices;
      if (!Elimination(problem_, edges_of_, nodes, kMostRegionEntries).run(costs, tried)) {
        size = std::max<size_t>(8, size * 3 / 4);
        ++idle;
        continue;
      }
      size = std::min(all_.size(), size + 1 + size / 16);
      idle = tried == choices ? idle + 1 : 0;
      choices = std::move(tried);
    }
  }

  void take(const std::vector<int>& choices, int64_t bound) {
    best_.lower_bound = std::max(best_.lower_bound, bound);
    if (peak_usage(problem_, choices) > problem_.limit) return;
    const int64_t cost = cost_of(problem_, choices);
    if (!best_.choices.empty() && best_.cost <= cost) return;
    best_.choices = choices;
    best_.cost = cost;
  }

  // Doubled until the limit holds, then halved between the largest price that did not hold and the least that did.
  void raise_price(std::vector<int> choices) {
    const double cost = std::max(1.0, static_cast<double>(cost_of(problem_, choices)));
    double low = 0, high = 0, price = cost / 1000;
    for (int step = 0; step < kPriceSteps && price < kMostPrice * cost && !is_over(); ++step) {
      take(choices, minimise(price, choices));
      (peak_usage(problem_, choices) > problem_.limit ? low : high) = price;
      price = high == 0 ? low * 4 : (low + high) / 2;
      if (high > 0 && high - low < 1e-3 * high) break;
    }
  }

  const ReducedProblem reduced_;
  const PartitionProblem& problem_;
  const std::vector<std::vector<int>> edges_of_;
  const Clock::time_point end_;
  std::vector<int> all_;
  bool is_narrow_ = true;
  std::mt19937 random_{1};
  PartitionSolution best_;
};

}  // namespace

PartitionSolution solve_partition(const PartitionProblem& problem, double seconds) {
  return Solver(problem, seconds).run();
}

}  // namespace weftc
