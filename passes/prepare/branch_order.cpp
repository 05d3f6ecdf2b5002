// Walks from values without readers back to their operands, and lists an op after its operands:
//
//   a0 b0 a1 b1 a2 join(a2, b1)   ->   a0 a1 a2 b0 b1 join
#include "passes/prepare/branch_order.h"

#include <algorithm>

namespace weftc {

namespace {

class BranchOrder {
 public:
  BranchOrder(const Graph& graph, const std::vector<bool>& is_wanted)
      : graph_(graph), is_wanted_(is_wanted), depth_(graph.op_capacity(), 0), seen_(graph.op_capacity(), false) {}

  std::vector<OpId> run() {
    const std::vector<OpId> order = graph_.order();
    measure_depths(order);
    std::vector<bool> leads_on(graph_.op_capacity(), false);  // to something wanted
    std::vector<OpId> ends;
    for (auto at = order.rbegin(); at != order.rend(); ++at) {
      if (is_wanted_[at->index] && !leads_on[at->index]) ends.push_back(*at);
      if (!is_wanted_[at->index] && !leads_on[at->index]) continue;
      for (const OpId maker : makers(*at)) leads_on[maker.index] = true;
    }
    for (auto end = ends.rbegin(); end != ends.rend(); ++end) list(*end);
    return std::move(line_);
  }

 private:
  struct Visit {
    OpId op;
    std::vector<OpId> left;  // its operands that are left to visit, the next one last
  };

  std::vector<OpId> makers(OpId id) const {
    std::vector<OpId> found;
    for (const ValueId v : graph_.op(id).inputs)
      if (v) found.push_back(graph_.producer(v));
    return found;
  }

  /// By op: the number of wanted ops on the longest path to it.
  void measure_depths(const std::vector<OpId>& order) {
    for (const OpId id : order) {
      for (const OpId maker : makers(id)) depth_[id.index] = std::max(depth_[id.index], depth_[maker.index]);
      depth_[id.index] += is_wanted_[id.index] ? 1 : 0;
    }
  }

  void open(std::vector<Visit>& visits, OpId id) {
    seen_[id.index] = true;
    std::vector<OpId> left = makers(id);
    std::ranges::reverse(left);
    std::ranges::stable_sort(left, {}, [&](OpId maker) { return depth_[maker.index]; });
    visits.push_back({id, std::move(left)});
  }

  /// Lists an op after all its operands. It does not recurse, because models are deep.
  void list(OpId end) {
    std::vector<Visit> visits;
    open(visits, end);
    while (!visits.empty()) {
      Visit& visit = visits.back();
      if (visit.left.empty()) {
        if (is_wanted_[visit.op.index]) line_.push_back(visit.op);
        visits.pop_back();
        continue;
      }
      const OpId next = visit.left.back();
      visit.left.pop_back();
      if (!seen_[next.index]) open(visits, next);
    }
  }

  const Graph& graph_;
  const std::vector<bool>& is_wanted_;
  std::vector<int> depth_;
  std::vector<bool> seen_;
  std::vector<OpId> line_;
};

}  // namespace

std::vector<OpId> branches_in_line(const Graph& graph, const std::vector<bool>& is_wanted) {
  return BranchOrder(graph, is_wanted).run();
}

}  // namespace weftc
