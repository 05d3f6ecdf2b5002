#include "passes/partition/elimination.h"

#include <algorithm>
#include <queue>

namespace weftc {

Elimination::Elimination(const PartitionProblem& problem, const std::vector<std::vector<int>>& edges_of,
                         const std::vector<int>& nodes, int64_t most_entries)
    : problem_(problem),
      edges_of_(edges_of),
      nodes_(nodes),
      most_entries_(most_entries),
      position_(problem.nodes.size(), -1) {
  for (size_t i = 0; i < nodes_.size(); ++i) position_[static_cast<size_t>(nodes_[i])] = static_cast<int>(i);
}

int Elimination::width(int node) const {
  return static_cast<int>(problem_.nodes[static_cast<size_t>(nodes_[static_cast<size_t>(node)])].costs.size());
}

int64_t Elimination::entries(const std::vector<int>& nodes) const {
  int64_t count = 1;
  for (const int node : nodes) {
    count *= width(node);
    if (count > most_entries_) return most_entries_ + 1;
  }
  return count;
}

void Elimination::add_table(Table table) {
  if (table.nodes.empty()) {
    sum_ += table.costs.front();
    return;
  }
  for (const int node : table.nodes) tables_of_[static_cast<size_t>(node)].push_back(static_cast<int>(tables_.size()));
  tables_.push_back(std::move(table));
}

/// One table for each node, with what its edges to others cost, and one for each edge between two of the nodes.
void Elimination::make_tables(const NodeCosts& costs, const std::vector<int>& choices) {
  tables_.clear(), done_.clear(), sum_ = 0;
  tables_of_.assign(nodes_.size(), {});
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const int node = nodes_[i];
    std::vector<int64_t> own = costs[static_cast<size_t>(node)];
    for (const int e : edges_of_[static_cast<size_t>(node)]) {
      const PartitionProblem::Edge& edge = problem_.edges[static_cast<size_t>(e)];
      const bool is_first = edge.a == node;
      const int other = is_first ? edge.b : edge.a;
      const size_t columns = problem_.nodes[static_cast<size_t>(edge.b)].costs.size();
      if (const int there = position_[static_cast<size_t>(other)]; there >= 0) {
        if (is_first) add_table({{static_cast<int>(i), there}, edge.costs});
        continue;
      }
      const auto fixed = static_cast<size_t>(choices[static_cast<size_t>(other)]);
      for (size_t c = 0; c < own.size(); ++c)
        own[c] += is_first ? edge.costs[c * columns + fixed] : edge.costs[fixed * columns + c];
    }
    add_table({{static_cast<int>(i)}, std::move(own)});
  }
}

std::vector<int> Elimination::neighbours(int node) const {
  std::vector<int> found;
  for (const int t : tables_of_[static_cast<size_t>(node)])
    if (!tables_[static_cast<size_t>(t)].is_used)
      for (const int other : tables_[static_cast<size_t>(t)].nodes)
        if (other != node) found.push_back(other);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

/// Replaces the node by a table of its neighbours; false where that is too large.
bool Elimination::eliminate(int node) {
  Eliminated made{node, neighbours(node), {}};
  const int64_t count = entries(made.others);
  if (count * width(node) > most_entries_) return false;
  // What one step of each digit, and of the node's own choice, is in each table.
  struct Read {
    const int64_t* costs;
    int64_t at = 0, own = 0;
    std::vector<int64_t> steps;
  };
  std::vector<Read> reads;
  for (const int t : tables_of_[static_cast<size_t>(node)]) {
    Table& table = tables_[static_cast<size_t>(t)];
    if (std::exchange(table.is_used, true)) continue;
    Read read{table.costs.data(), 0, 0, std::vector<int64_t>(made.others.size(), 0)};
    int64_t stride = 1;
    for (size_t d = table.nodes.size(); d-- > 0; stride *= width(table.nodes[d]))
      if (table.nodes[d] == node)
        read.own = stride;
      else
        read.steps[static_cast<size_t>(std::lower_bound(made.others.begin(), made.others.end(), table.nodes[d]) -
                                       made.others.begin())] = stride;
    reads.push_back(std::move(read));
  }
  Table table{made.others, std::vector<int64_t>(static_cast<size_t>(count))};
  made.best.resize(static_cast<size_t>(count));
  std::vector<int> digits(made.others.size(), 0);
  const int own = width(node);
  for (size_t entry = 0; entry < table.costs.size(); ++entry) {
    int64_t least = INT64_MAX;
    for (int c = 0; c < own; ++c) {
      int64_t cost = 0;
      for (const Read& read : reads) cost += read.costs[read.at + c * read.own];
      if (cost < least) least = cost, made.best[entry] = c;
    }
    table.costs[entry] = least;
    for (size_t d = digits.size(); d-- > 0;) {
      const bool wraps = ++digits[d] == width(made.others[d]);
      const int64_t steps = wraps ? 1 - digits[d] : 1;
      for (Read& read : reads) read.at += steps * read.steps[d];
      if (!wraps) break;
      digits[d] = 0;
    }
  }
  for (const int t : tables_of_[static_cast<size_t>(node)])
    std::vector<int64_t>().swap(tables_[static_cast<size_t>(t)].costs);
  done_.push_back(std::move(made));
  add_table(std::move(table));
  return true;
}

// The node whose table is smallest goes first. Its neighbours' tables change with that: their entries in the queue are
// stale, and are looked at again when they come up.
std::optional<int64_t> Elimination::run(const NodeCosts& costs, std::vector<int>& choices) {
  make_tables(costs, choices);
  using Entry = std::pair<int64_t, int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  std::vector<bool> is_done(nodes_.size(), false);
  const auto size_of = [&](int node) { return entries(neighbours(node)) * width(node); };
  for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) queue.emplace(size_of(node), node);
  while (!queue.empty()) {
    const auto [size, node] = queue.top();
    queue.pop();
    if (is_done[static_cast<size_t>(node)]) continue;
    if (const int64_t now = size_of(node); now > size) {
      queue.emplace(now, node);
      continue;
    }
    if (!eliminate(node)) return {};
    is_done[static_cast<size_t>(node)] = true;
    for (const int other : done_.back().others) queue.emplace(size_of(other), other);
  }
  for (auto at = done_.rbegin(); at != done_.rend(); ++at) {
    size_t entry = 0;
    for (const int other : at->others)
      entry = entry * static_cast<size_t>(width(other)) +
              static_cast<size_t>(choices[static_cast<size_t>(nodes_[static_cast<size_t>(other)])]);
    choices[static_cast<size_t>(nodes_[static_cast<size_t>(at->node)])] = at->best[entry];
  }
  return sum_;
}

}  // namespace weftc
