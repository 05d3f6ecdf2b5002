// Finds the fewest bytes that separate available values from wanted ones, by the max-flow min-cut theorem.
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
  /// By node: whether it is on the sink's side of the cut of the smallest capacity. Among several such cuts, takes the
  /// one nearest to the sink. Every path from the source to the sink must have an edge that is not unlimited. The
  /// network is used up.
  std::vector<bool> after_smallest_cut();

 private:
  struct Edge {
    int to;
    int64_t left;  // of its capacity
  };
  bool send_along_shortest_way();

  std::vector<Edge> edges_;  // each next to its reverse edge, whose index differs in the last bit
  std::vector<std::vector<int>> edges_of_ = std::vector<std::vector<int>>(2);
};

}  // namespace weftc
