// Finds the order of a few ops by walking outwards from one of them.
#include "passes/graph_order.h"

#include <deque>

#include "ir/base/check.h"

namespace weftc {

// Outwards from one of them, both ways, until all are met.
std::vector<OpId> in_graph_order(const Graph& graph, const std::set<OpId>& ops) {
  if (ops.empty()) return {};
  OpId front = *ops.begin(), back = front;
  std::deque<OpId> met{front};
  while (met.size() < ops.size()) {
    WEFT_CHECK(front || back, "ordering an op that is not in the graph");
    if (front) front = graph.previous(front);
    if (front && ops.contains(front)) met.push_front(front);
    if (back) back = graph.next(back);
    if (back && ops.contains(back)) met.push_back(back);
  }
  return {met.begin(), met.end()};
}

}  // namespace weftc
