// Sends flow along the shortest augmenting path until no path is left (Edmonds and Karp, 1972). The nodes that can
// still reach the sink are then on the sink's side of the cut.
#include "passes/prepare/smallest_cut.h"

#include <algorithm>

namespace weftc {

int FlowNetwork::add_node() {
  edges_of_.emplace_back();
  return static_cast<int>(edges_of_.size()) - 1;
}

void FlowNetwork::add_edge(int from, int to, int64_t capacity) {
  edges_of_[from].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({to, capacity});
  edges_of_[to].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({from, 0});
}

bool FlowNetwork::send_along_shortest_way() {
  std::vector<int> came_by(edges_of_.size(), -1), reached{kSource};
  for (size_t at = 0; at < reached.size() && came_by[kSink] < 0; ++at)
    for (const int e : edges_of_[reached[at]]) {
      const int to = edges_[e].to;
      if (edges_[e].left == 0 || to == kSource || came_by[to] >= 0) continue;
      came_by[to] = e;
      reached.push_back(to);
    }
  if (came_by[kSink] < 0) return false;
  const auto for_each_edge = [&](const auto& f) {
    for (int node = kSink; node != kSource; node = edges_[came_by[node] ^ 1].to) f(came_by[node]);
  };
  int64_t sent = kUnlimited;
  for_each_edge([&](int e) { sent = std::min(sent, edges_[e].left); });
  for_each_edge([&](int e) { edges_[e].left -= sent, edges_[e ^ 1].left += sent; });
  return true;
}

std::vector<bool> FlowNetwork::after_smallest_cut() {
  while (send_along_shortest_way()) {
  }
  std::vector<bool> is_after(edges_of_.size(), false);
  is_after[kSink] = true;
  std::vector<int> reached{kSink};
  for (size_t at = 0; at < reached.size(); ++at)
    for (const int back : edges_of_[reached[at]]) {
      const int from = edges_[back].to;
      if (edges_[back ^ 1].left == 0 || is_after[from]) continue;
      is_after[from] = true;
      reached.push_back(from);
    }
  return is_after;
}

}  // namespace weftc
