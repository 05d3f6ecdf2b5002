#include "passes/partition/reduction.h"

#include <algorithm>

namespace weftc {

namespace {

constexpr int kMostRounds = 8;

class Reducer {
 public:
  explicit Reducer(const PartitionProblem& problem) : problem_(problem), edges_of_(edges_by_node(problem)) {
    for (const PartitionProblem::Node& node : problem.nodes) {
      kept_.emplace_back();
      for (int c = 0; c < static_cast<int>(node.costs.size()); ++c) kept_.back().push_back(c);
    }
  }

  ReducedProblem run() {
    for (int round = 0; round < kMostRounds; ++round) {
      bool is_changed = false;
      for (int node = 0; node < static_cast<int>(problem_.nodes.size()); ++node) is_changed |= drop_dominated(node);
      if (!is_changed) break;
    }
    return made();
  }

 private:
  int64_t edge_cost(const PartitionProblem::Edge& edge, int node, int own, int other) const {
    const auto width = static_cast<int64_t>(problem_.nodes[static_cast<size_t>(edge.b)].costs.size());
    return edge.costs[static_cast<size_t>(edge.a == node ? own * width + other : other * width + own)];
  }

  /// How much more choice `b` can cost than `a`, at most.
  int64_t most_more(int node, int a, int b) const {
    const PartitionProblem::Node& own = problem_.nodes[static_cast<size_t>(node)];
    int64_t more = own.costs[static_cast<size_t>(b)] - own.costs[static_cast<size_t>(a)];
    for (const int e : edges_of_[static_cast<size_t>(node)]) {
      const PartitionProblem::Edge& edge = problem_.edges[static_cast<size_t>(e)];
      int64_t most = INT64_MIN;
      for (const int other : kept_[static_cast<size_t>(edge.a == node ? edge.b : edge.a)])
        most = std::max(most, edge_cost(edge, node, b, other) - edge_cost(edge, node, a, other));
      more += most;
    }
    return more;
  }

  bool drop_dominated(int node) {
    std::vector<int>& kept = kept_[static_cast<size_t>(node)];
    const std::vector<int64_t>& usage = problem_.nodes[static_cast<size_t>(node)].usage;
    const size_t before = kept.size();
    for (size_t a = kept.size(); a-- > 0;) {
      const auto is_no_worse = [&](int b) {
        const int own = kept[a];
        if (b == own || (!usage.empty() && usage[static_cast<size_t>(b)] > usage[static_cast<size_t>(own)]))
          return false;
        return most_more(node, own, b) <= 0;
      };
      if (std::ranges::any_of(kept, is_no_worse)) kept.erase(kept.begin() + static_cast<long>(a));
    }
    return kept.size() != before;
  }

  ReducedProblem made() const {
    ReducedProblem out{{{}, {}, problem_.limit}, kept_};
    for (size_t n = 0; n < problem_.nodes.size(); ++n) {
      const PartitionProblem::Node& from = problem_.nodes[n];
      PartitionProblem::Node node{from.first, from.last, {}, {}};
      for (const int c : kept_[n]) {
        node.costs.push_back(from.costs[static_cast<size_t>(c)]);
        if (!from.usage.empty()) node.usage.push_back(from.usage[static_cast<size_t>(c)]);
      }
      out.problem.nodes.push_back(std::move(node));
    }
    for (const PartitionProblem::Edge& from : problem_.edges) {
      PartitionProblem::Edge edge{from.a, from.b, {}};
      for (const int a : kept_[static_cast<size_t>(from.a)])
        for (const int b : kept_[static_cast<size_t>(from.b)]) edge.costs.push_back(edge_cost(from, from.a, a, b));
      out.problem.edges.push_back(std::move(edge));
    }
    return out;
  }

  const PartitionProblem& problem_;
  const std::vector<std::vector<int>> edges_of_;
  std::vector<std::vector<int>> kept_;
};

}  // namespace

std::vector<std::vector<int>> edges_by_node(const PartitionProblem& problem) {
  std::vector<std::vector<int>> edges(problem.nodes.size());
  for (int e = 0; e < static_cast<int>(problem.edges.size()); ++e) {
    edges[static_cast<size_t>(problem.edges[static_cast<size_t>(e)].a)].push_back(e);
    edges[static_cast<size_t>(problem.edges[static_cast<size_t>(e)].b)].push_back(e);
  }
  return edges;
}

ReducedProblem reduce(const PartitionProblem& problem) { return Reducer(problem).run(); }

std::vector<int> expand(const ReducedProblem& reduced, const std::vector<int>& choices) {
  std::vector<int> out;
  for (size_t n = 0; n < choices.size(); ++n) out.push_back(reduced.kept[n][static_cast<size_t>(choices[n])]);
  return out;
}

}  // namespace weftc
