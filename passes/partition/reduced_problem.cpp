// Edits of a problem that is reduced.
#include "passes/partition/reduced_problem.h"

#include <algorithm>
#include <numeric>

namespace weftc {

namespace {

uint64_t pair_key(int a, int b) {
  return static_cast<uint64_t>(std::min(a, b)) << 32 | static_cast<uint64_t>(std::max(a, b));
}

/// Only the entries that are kept, in place.
template <class T>
void keep(std::vector<T>& values, const std::vector<char>& kept) {
  size_t to = 0;
  for (size_t i = 0; i < values.size(); ++i)
    if (kept[i]) values[to++] = values[i];
  values.resize(to);
}

}  // namespace

ReducedProblem::ReducedProblem(const PartitionProblem& problem)
    : nodes(problem.nodes.size()), is_changed(problem.nodes.size(), 1) {
  const TimePoints times(problem);
  room.assign(times.count(), problem.limit);
  taken_.assign(times.count() + 1, 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const PartitionProblem::Node& from = problem.nodes[i];
    Node& node = nodes[i];
    node.costs = from.costs;
    for (int64_t& cost : node.costs) cost = std::min(cost, kForbiddenCost);
    node.choices.resize(from.costs.size());
    std::iota(node.choices.begin(), node.choices.end(), 0);
    const UsageLease lease{times.number(from.first), times.number(from.last), from.usage};
    if (takes_memory(from) && lease.first < lease.last) node.leases.push_back(lease);
  }
  for (const PartitionProblem::Edge& edge : problem.edges) add_edge(edge.a, edge.b, edge.costs);
  for (size_t i = 0; i < nodes.size(); ++i) tidy_leases(static_cast<int>(i));
  drop_times();
}

int64_t ReducedProblem::edge_cost(int edge, int node, int choice, int other) const {
  const Edge& e = edges[edge];
  const size_t columns = nodes[e.b].costs.size();
  return e.a == node ? e.costs[choice * columns + other] : e.costs[other * columns + choice];
}

void ReducedProblem::touch(int node) {
  is_changed[node] = 1;
  for (const int edge : nodes[node].edges) is_changed[edges[edge].a] = is_changed[edges[edge].b] = 1;
}

void ReducedProblem::add_costs_of_edge(Edge& edge, int a, const std::vector<int64_t>& costs) const {
  const int rows = choice_count(edge.a), columns = choice_count(edge.b);
  for (int x = 0; x < rows; ++x)
    for (int y = 0; y < columns; ++y) {
      int64_t& cost = edge.costs[static_cast<size_t>(x) * columns + y];
      cost = add_costs(
          cost, edge.a == a ? costs[static_cast<size_t>(x) * columns + y] : costs[static_cast<size_t>(y) * rows + x]);
    }
}

void ReducedProblem::add_edge(int a, int b, std::vector<int64_t> costs) {
  for (int64_t& cost : costs) cost = std::min(cost, kForbiddenCost);
  if (a == b) {
    const size_t columns = nodes[a].costs.size();
    for (size_t x = 0; x < columns; ++x) nodes[a].costs[x] = add_costs(nodes[a].costs[x], costs[x * columns + x]);
    return;
  }
  const auto [at, is_new] = edge_of_.insert({pair_key(a, b), static_cast<int>(edges.size())});
  if (!is_new) return add_costs_of_edge(edges[at->second], a, costs);
  edges.push_back({true, a, b, std::move(costs)});
  nodes[a].edges.push_back(at->second);
  nodes[b].edges.push_back(at->second);
}

void ReducedProblem::drop_edge(int edge) {
  Edge& e = edges[edge];
  for (const int node : {e.a, e.b}) std::erase(nodes[node].edges, edge);
  edge_of_.erase(pair_key(e.a, e.b));
  e.is_alive = false;
  e.costs = {};
}

void ReducedProblem::keep_choices(int node, const std::vector<char>& kept) {
  Node& n = nodes[node];
  const auto count = std::count(kept.begin(), kept.end(), 1);
  if (count == static_cast<std::ptrdiff_t>(kept.size())) return;
  if (count == 0) {
    is_infeasible = true;
    return;
  }
  for (const int edge : n.edges) {
    Edge& e = edges[edge];
    const int rows = choice_count(e.a), columns = choice_count(e.b);
    size_t from = 0, to = 0;
    for (int x = 0; x < rows; ++x)
      for (int y = 0; y < columns; ++y, ++from)
        if (kept[e.a == node ? x : y]) e.costs[to++] = e.costs[from];
    e.costs.resize(to);
  }
  keep(n.costs, kept);
  keep(n.choices, kept);
  for (UsageLease& lease : n.leases) keep(lease.usage, kept);
  touch(node);
}

void ReducedProblem::fix(int node) {
  touch(node);
  Node& n = nodes[node];
  base_cost = add_costs(base_cost, n.costs[0]);
  const std::vector<int> around = n.edges;
  for (const int edge : around) {
    const int other = other_end(edge, node);
    for (int y = 0; y < choice_count(other); ++y)
      nodes[other].costs[y] = add_costs(nodes[other].costs[y], edges[edge].costs[y]);
    drop_edge(edge);
  }
  tidy_leases(node);
  removals_.push_back({node, -1, n.choices});
  n.is_alive = false;
}

void ReducedProblem::contract(int into, int gone, int edge, const std::vector<int>& choice_of) {
  touch(into);
  touch(gone);
  Node &kept = nodes[into], &lost = nodes[gone];
  const int count = choice_count(into);
  for (int x = 0; x < count; ++x)
    kept.costs[x] =
        add_costs(kept.costs[x], add_costs(lost.costs[choice_of[x]], edge_cost(edge, into, x, choice_of[x])));
  for (const UsageLease& lease : lost.leases) {
    UsageLease moved{lease.first, lease.last, {}};
    for (int x = 0; x < count; ++x) moved.usage.push_back(lease.usage[choice_of[x]]);
    kept.leases.push_back(std::move(moved));
  }
  drop_edge(edge);
  const std::vector<int> around = lost.edges;
  for (const int old : around) {
    const int other = other_end(old, gone);
    std::vector<int64_t> costs;
    for (int x = 0; x < count; ++x)
      for (int y = 0; y < choice_count(other); ++y) costs.push_back(edge_cost(old, gone, choice_of[x], y));
    drop_edge(old);
    add_edge(into, other, std::move(costs));
  }
  Removal removal{gone, into, {}};
  removal.choice_of.assign(1 + *std::max_element(kept.choices.begin(), kept.choices.end()), -1);
  for (int x = 0; x < count; ++x) removal.choice_of[kept.choices[x]] = lost.choices[choice_of[x]];
  removals_.push_back(std::move(removal));
  lost.is_alive = false;
  lost.leases.clear();
}

void ReducedProblem::tidy_leases(int node) {
  std::vector<UsageLease>& leases = nodes[node].leases;
  std::sort(leases.begin(), leases.end(), [](const UsageLease& p, const UsageLease& q) {
    return std::pair(p.first, p.last) < std::pair(q.first, q.last);
  });
  std::vector<UsageLease> tidy;
  for (UsageLease& lease : leases) {
    const int64_t least = *std::min_element(lease.usage.begin(), lease.usage.end());
    taken_[lease.first] += least;
    taken_[lease.last] -= least;
    for (int64_t& usage : lease.usage) usage -= least;
    if (lease.first >= lease.last || *std::max_element(lease.usage.begin(), lease.usage.end()) == 0) continue;
    UsageLease* const before = tidy.empty() ? nullptr : &tidy.back();
    if (before && before->first == lease.first && before->last == lease.last)
      for (size_t x = 0; x < lease.usage.size(); ++x) before->usage[x] += lease.usage[x];
    else if (before && before->last == lease.first && before->usage == lease.usage)
      before->last = lease.last;
    else
      tidy.push_back(std::move(lease));
  }
  leases = std::move(tidy);
}

void ReducedProblem::apply_taken() {
  int64_t taken = 0;
  for (size_t t = 0; t < room.size(); ++t) room[t] -= taken += taken_[t];
  std::fill(taken_.begin(), taken_.end(), 0);
}

void ReducedProblem::drop_times() {
  apply_taken();
  for (const int64_t left : room) is_infeasible |= left < 0;
  std::vector<std::vector<UsageLease>*> leases;
  for (Node& node : nodes)
    if (node.is_alive) leases.push_back(&node.leases);
  const std::vector<char> kept = times_that_bind(room, leases);
  std::vector<int> number(room.size() + 1, 0);
  for (size_t t = 0; t < room.size(); ++t) number[t + 1] = number[t] + kept[t];
  keep(room, kept);
  taken_.assign(room.size() + 1, 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i].is_alive) continue;
    for (UsageLease& lease : nodes[i].leases) lease.first = number[lease.first], lease.last = number[lease.last];
    tidy_leases(static_cast<int>(i));
  }
  apply_taken();
}

std::vector<int> ReducedProblem::expand(const std::vector<int>& choices) const {
  std::vector<int> result(nodes.size(), -1);
  for (size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].is_alive) result[i] = nodes[i].choices[choices[i]];
  for (auto removal = removals_.rbegin(); removal != removals_.rend(); ++removal)
    result[removal->node] = removal->choice_of[removal->into < 0 ? 0 : result[removal->into]];
  return result;
}

}  // namespace weftc
