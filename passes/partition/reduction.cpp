// The rules that make a problem smaller, and the order in which they are tried.
#include "passes/partition/reduction.h"

#include <algorithm>
#include <optional>

namespace weftc {

namespace {

// A contraction copies tables; it may make those of a node at most twice as large, or larger by this many entries.
constexpr double kMostGrowth = 20000;
// Comparing all pairs of choices of a node with many edges would take longer than a search gains by it.
constexpr double kMostComparisons = 3e8;

class Reduction {
 public:
  explicit Reduction(ReducedProblem& problem) : p_(problem) {}

  void run() {
    for (int round = 0; !p_.is_infeasible; ++round) {
      todo_ = p_.is_changed;
      std::fill(p_.is_changed.begin(), p_.is_changed.end(), 0);
      bool found = make_consistent();
      for (size_t i = 0; i < p_.nodes.size() && !p_.is_infeasible; ++i)
        found |= is_todo(i) && settle(static_cast<int>(i));
      for (size_t i = 0; i < p_.nodes.size() && !p_.is_infeasible; ++i)
        found |= is_todo(i) && simplify_edges(static_cast<int>(i));
      if (p_.is_infeasible) return;
      if (!found || round % 2 == 1)
        for (size_t i = 0; i < p_.nodes.size(); ++i) found |= is_todo(i) && drop_dominated(static_cast<int>(i));
      if (!found || round % 4 == 3) {
        p_.drop_times();
        found |= drop_large();
      }
      const bool is_done = std::count(p_.is_changed.begin(), p_.is_changed.end(), 1) == 0;
      if (!found && is_done) return;
    }
  }

 private:
  bool is_todo(size_t node) const { return p_.nodes[node].is_alive && todo_[node]; }

  /// Restores arc consistency of the edges of changed nodes, and of nodes that change thereby.
  bool make_consistent() {
    std::vector<int> queue;
    std::vector<char> is_queued(p_.edges.size(), 0);
    const auto put = [&](int edge) {
      if (!is_queued[edge]) queue.push_back(edge);
      is_queued[edge] = 1;
    };
    for (size_t i = 0; i < p_.nodes.size(); ++i)
      if (is_todo(i))
        for (const int edge : p_.nodes[i].edges) put(edge);
    bool found = false;
    while (!queue.empty() && !p_.is_infeasible) {
      const int edge = queue.back();
      queue.pop_back();
      is_queued[edge] = 0;
      for (const int node : drop_unsupported(edge)) {
        found = true;
        for (const int next : p_.nodes[node].edges) put(next);
      }
    }
    return found;
  }

  /// Removes choices of both ends that are compatible with no choice of the other end; returns the ends that lost some.
  std::vector<int> drop_unsupported(int edge) {
    const ReducedProblem::Edge& e = p_.edges[edge];
    const int a = e.a, b = e.b, rows = p_.choice_count(a), columns = p_.choice_count(b);
    std::vector<char> kept_a(rows, 0), kept_b(columns, 0);
    const auto &costs_a = p_.nodes[a].costs, &costs_b = p_.nodes[b].costs;
    for (int x = 0; x < rows; ++x)
      for (int y = 0; y < columns && costs_a[x] < kForbiddenCost; ++y)
        if (costs_b[y] < kForbiddenCost && e.costs[static_cast<size_t>(x) * columns + y] < kForbiddenCost)
          kept_a[x] = kept_b[y] = 1;
    std::vector<int> changed;
    if (std::count(kept_a.begin(), kept_a.end(), 0) > 0) changed.push_back(a);
    if (std::count(kept_b.begin(), kept_b.end(), 0) > 0) changed.push_back(b);
    p_.keep_choices(a, kept_a);
    if (!p_.is_infeasible) p_.keep_choices(b, kept_b);
    return changed;
  }

  /// Removes forbidden choices; a node of one choice is decided.
  bool settle(int node) {
    std::vector<char> kept;
    for (const int64_t cost : p_.nodes[node].costs) kept.push_back(cost < kForbiddenCost);
    p_.keep_choices(node, kept);
    if (p_.is_infeasible || p_.choice_count(node) > 1) return false;
    p_.fix(node);
    return true;
  }

  bool simplify_edges(int node) {
    bool found = false;
    p_.tidy_leases(node);
    const std::vector<int> around = p_.nodes[node].edges;
    for (const int edge : around) {
      if (!p_.nodes[node].is_alive) break;
      if (p_.edges[edge].is_alive) found |= separate(edge) || contract_along(edge);
    }
    return found;
  }

  /// cost(x, y) = u(x) + v(y)  ->  no edge, and u and v are costs of the nodes. No part exceeds the whole.
  bool separate(int edge) {
    const ReducedProblem::Edge& e = p_.edges[edge];
    const int a = e.a, b = e.b, rows = p_.choice_count(a), columns = p_.choice_count(b);
    const auto at = [&](int x, int y) { return e.costs[static_cast<size_t>(x) * columns + y]; };
    int least = 0;
    for (int x = 0; x < rows; ++x)
      if (at(x, 0) < at(least, 0)) least = x;
    for (int x = 0; x < rows; ++x)
      for (int y = 0; y < columns; ++y)
        if (at(x, y) >= kForbiddenCost || at(x, y) - at(least, y) != at(x, 0) - at(least, 0)) return false;
    for (int x = 0; x < rows; ++x) p_.nodes[a].costs[x] = add_costs(p_.nodes[a].costs[x], at(x, 0) - at(least, 0));
    for (int y = 0; y < columns; ++y) p_.nodes[b].costs[y] = add_costs(p_.nodes[b].costs[y], at(least, y));
    p_.is_changed[a] = p_.is_changed[b] = 1;
    p_.drop_edge(edge);
    return true;
  }

  /// The choice of `other` that each choice of `node` allows, where each allows exactly one.
  std::optional<std::vector<int>> decided(int edge, int node, int other) const {
    std::vector<int> result(p_.choice_count(node), -1);
    for (int x = 0; x < p_.choice_count(node); ++x) {
      for (int y = 0; y < p_.choice_count(other); ++y) {
        if (p_.edge_cost(edge, node, x, y) >= kForbiddenCost) continue;
        if (result[x] >= 0) return {};
        result[x] = y;
      }
      if (result[x] < 0) return {};
    }
    return result;
  }

  bool contract_along(int edge) {
    const auto weight = [&](int node) { return p_.nodes[node].edges.size() + p_.nodes[node].leases.size(); };
    int into = p_.edges[edge].a, gone = p_.edges[edge].b;
    if (weight(into) < weight(gone)) std::swap(into, gone);  // if both can move, the one with less to move does
    for (int turn = 0; turn < 2; ++turn, std::swap(into, gone)) {
      if (is_growing(into, gone)) continue;
      const std::optional<std::vector<int>> choice_of = decided(edge, into, gone);
      if (!choice_of) continue;
      p_.contract(into, gone, edge, *choice_of);
      return true;
    }
    return false;
  }

  bool is_growing(int into, int gone) const {
    double entries = 0;
    for (const int edge : p_.nodes[gone].edges) entries += static_cast<double>(p_.edges[edge].costs.size());
    const double growth = entries * (static_cast<double>(p_.choice_count(into)) / p_.choice_count(gone) - 1);
    return growth > entries + kMostGrowth;
  }

  bool drop_dominated(int node) {
    const int count = p_.choice_count(node);
    double entries = 0;
    for (const int edge : p_.nodes[node].edges) entries += static_cast<double>(p_.edges[edge].costs.size());
    if (count < 2 || entries * count > kMostComparisons) return false;
    std::vector<char> kept(count, 1);
    for (int x = 0; x < count; ++x)
      for (int y = 0; y < count && kept[x]; ++y)
        if (y != x && kept[y] && is_dominated(node, x, y)) kept[x] = 0;
    if (std::count(kept.begin(), kept.end(), 0) == 0) return false;
    p_.keep_choices(node, kept);
    p_.tidy_leases(node);
    return true;
  }

  /// Is choice `by` never worse than `x`?
  bool is_dominated(int node, int x, int by) const {
    const ReducedProblem::Node& n = p_.nodes[node];
    for (const UsageLease& lease : n.leases)
      if (lease.usage[by] > lease.usage[x]) return false;
    int64_t more = n.costs[by] - n.costs[x];
    for (const int edge : n.edges) {
      int64_t most = INT64_MIN;
      for (int y = 0; y < p_.choice_count(p_.other_end(edge, node)); ++y) {
        const int64_t cost = p_.edge_cost(edge, node, x, y), cost_by = p_.edge_cost(edge, node, by, y);
        if (cost >= kForbiddenCost) continue;
        if (cost_by >= kForbiddenCost) return false;
        most = std::max(most, cost_by - cost);
      }
      if (most != INT64_MIN) more += most;
    }
    return more <= 0;
  }

  /// Removes choices that take more memory than is left at some time.
  bool drop_large() {
    bool found = false;
    for (size_t i = 0; i < p_.nodes.size() && !p_.is_infeasible; ++i) {
      if (!p_.nodes[i].is_alive) continue;
      std::vector<char> kept(p_.nodes[i].costs.size(), 1);
      for (const UsageLease& lease : p_.nodes[i].leases) {
        const int64_t room = *std::min_element(p_.room.begin() + lease.first, p_.room.begin() + lease.last);
        for (size_t x = 0; x < kept.size(); ++x) kept[x] &= lease.usage[x] <= room;
      }
      if (std::count(kept.begin(), kept.end(), 0) == 0) continue;
      found = true;
      p_.keep_choices(static_cast<int>(i), kept);
      if (!p_.is_infeasible) p_.tidy_leases(static_cast<int>(i));
    }
    return found;
  }

  ReducedProblem& p_;
  std::vector<char> todo_;
};

}  // namespace

void reduce(ReducedProblem& problem) { Reduction(problem).run(); }

}  // namespace weftc
