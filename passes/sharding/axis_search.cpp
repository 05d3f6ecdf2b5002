#include "passes/sharding/axis_search.h"

#include <algorithm>
#include <functional>

namespace weftc {

namespace {

bool is_alike(const AxisState& a, const AxisState& b) {
  return a.kind == b.kind && (!a.is(AxisState::Kind::S) || a.dim == b.dim);  // blocks follow from the other axes
}

class AxisSearch {
 public:
  AxisSearch(const ShardingProblem& sharding, const PartitionEffort& effort)
      : sharding_(sharding), problem_(sharding.problem()), effort_(effort) {}

  std::vector<int> run() {
    const std::vector<int> alike(problem_.nodes.size(), 0);
    for (int axis = 0; axis < sharding_.axes(); ++axis) improve(alike, axis);
    if (const std::vector<int> equal = solve([&](int node, int choice) { return slices_equally(node, choice); });
        !equal.empty())
      improve(equal, 0);
    return best_;
  }

 private:
  using Keeps = std::function<bool(int node, int choice)>;

  /// Frees axis after axis until no axis gains anything.
  void improve(std::vector<int> choices, int axis) {
    int64_t cost = keeps_limit(choices) ? cost_of(problem_, choices) : kForbiddenCost;
    for (int idle = 0; idle < sharding_.axes(); axis = (axis + 1) % sharding_.axes()) {
      std::vector<int> next = solve([&](int node, int choice) {
        return differs_on_alone(axis, node, choice, choices[static_cast<size_t>(node)]);
      });
      const int64_t next_cost = next.empty() ? kForbiddenCost : cost_of(problem_, next);
      idle = next_cost < cost ? 1 : idle + 1;  // an axis that gained cannot gain more while the others stay
      if (next_cost < cost) cost = next_cost, choices = std::move(next);
    }
    if (cost < best_cost_) best_cost_ = cost, best_ = std::move(choices);
  }

  std::vector<int> solve(const Keeps& keeps) const {
    std::vector<std::vector<int>> left(problem_.nodes.size());
    for (size_t n = 0; n < left.size(); ++n)
      for (int choice = 0; choice < static_cast<int>(problem_.nodes[n].costs.size()); ++choice)
        if (keeps(static_cast<int>(n), choice)) left[n].push_back(choice);
    if (std::ranges::any_of(left, [](const auto& of_node) { return of_node.empty(); })) return {};
    std::vector<int> choices = solve_partition(with_choices(problem_, left), effort_).choices;
    for (size_t n = 0; n < choices.size(); ++n) choices[n] = left[n][static_cast<size_t>(choices[n])];
    return choices;
  }

  bool differs_on_alone(int axis, int node, int choice, int present) const {
    const std::span<const Layout> a = sharding_.layouts(node, choice), b = sharding_.layouts(node, present);
    for (size_t i = 0; i < a.size(); ++i)
      for (int other = 0; other < sharding_.axes(); ++other)
        if (other != axis && !is_alike(a[i][other], b[i][other])) return false;
    return true;
  }

  bool slices_equally(int node, int choice) const {
    for (const Layout& layout : sharding_.layouts(node, choice))
      for (int axis = 1; axis < sharding_.axes(); ++axis)
        if (!is_alike(layout[axis], layout[0])) return false;
    return true;
  }

  bool keeps_limit(const std::vector<int>& choices) const { return peak_usage(problem_, choices) <= problem_.limit; }

  const ShardingProblem& sharding_;
  const PartitionProblem& problem_;
  const PartitionEffort effort_;
  std::vector<int> best_;
  int64_t best_cost_ = kForbiddenCost;
};

}  // namespace

std::vector<int> search_by_axes(const ShardingProblem& problem, const PartitionEffort& effort) {
  return AxisSearch(problem, effort).run();
}

}  // namespace weftc
