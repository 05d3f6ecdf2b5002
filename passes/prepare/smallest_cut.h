// The fewest bytes that separate what can be had from what is wanted, by the theorem of maximum flow and minimum cut.
#pragma once
#include <cstdint>
#include <vector>

namespace weftc {

/// A directed graph whose edges have capacities. Node 0 is the source, node 1 the sink.
class FlowNetwork {
 public:
  static constexpr int kSource = 0, kSink = 1;
  static constexpr int64_t kUnlimited = INT64_MAX / 4;

  int add_node();
  void add_edge(int from, int to, int64_t capacity);
  /// By node: whether it lies behind the cut of the smallest capacity. Of several such cuts it is that next to the
  /// sink. Every way from the source to the sink must have an edge that is not unlimited. The network is used up.
  std::vector<bool> behind_smallest_cut();

 private:
  struct Edge {
    int to;
    int64_t left;  // of its capacity
  };
  bool send_along_shortest_way();

  std::vector<Edge> edges_;  // each beside the one that takes it back, which has the other parity
  std::vector<std::vector<int>> edges_of_ = std::vector<std::vector<int>>(2);
};

}  // namespace weftc
