// Finds the order of a few ops by walking outwards from one of them.
#include "passes/graph_order.h"

#include <deque>

#include "ir/base/check.h"

namespace weftc {

std::vector<bool> ancestors_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<bool> found(graph.op_capacity(), false);
  std::vector<ValueId> open = values;
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    if (!value || found[graph.producer(value).index]) continue;
    found[graph.producer(value).index] = true;
    const Op& op = graph.producer_op(value);
    open.insert(open.end(), op.inputs.begin(), op.inputs.end());
  }
  return found;
}

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
