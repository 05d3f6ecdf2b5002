// Derives facts from a problem's blocks alone.
#include "passes/pipelining/problem.h"

#include <algorithm>

namespace weftc {

namespace {

/// Matches memory that is given back with memory that was taken before, as a flow. If a taker's memory is needed for
/// another giver, the giver that had it is moved to another taker.
class LeaseFlow {
 public:
  LeaseFlow(const PipelineProblem& problem, const std::vector<int>& blocks,
            const std::vector<std::vector<bool>>& before) {
    for (const int block : blocks) {
      const int64_t memory = problem.blocks[static_cast<size_t>(block)].memory;
      if (memory > 0) takers_.push_back(block), left_.push_back(memory);
      if (memory < 0) givers_.push_back(block), missing_.push_back(-memory);
    }
    flow_.assign(takers_.size(), std::vector<int64_t>(givers_.size(), 0));
    for (const int taker : takers_) {
      may_.emplace_back();
      for (const int giver : givers_)
        may_.back().push_back(before[static_cast<size_t>(taker)][static_cast<size_t>(giver)]);
    }
  }

  MemoryLeases run() {
    MemoryLeases leases;
    for (size_t giver = 0; giver < givers_.size(); ++giver)
      while (missing_[giver] > 0) {
        seen_.assign(takers_.size(), false);
        const int64_t moved = push(giver, missing_[giver]);
        if (moved == 0) break;
        missing_[giver] -= moved;
      }
    for (size_t i = 0; i < givers_.size(); ++i)
      if (missing_[i] > 0) leases.unmatched = givers_[i];
    for (size_t i = 0; i < takers_.size(); ++i)
      if (left_[i] > 0) leases.unreturned = takers_[i];
    for (size_t i = 0; i < takers_.size(); ++i)
      for (size_t j = 0; j < givers_.size(); ++j)
        if (flow_[i][j] > 0) leases.all.push_back({takers_[i], givers_[j], flow_[i][j]});
    return leases;
  }

 private:
  /// Finds up to `wanted` for a giver, from takers that have some left or through givers that can have theirs
  /// elsewhere.
  int64_t push(size_t giver, int64_t wanted) {
    for (size_t taker = 0; taker < takers_.size(); ++taker) {
      if (!may_[taker][giver] || seen_[taker]) continue;
      seen_[taker] = true;
      int64_t found = std::min(wanted, left_[taker]);
      if (found > 0) left_[taker] -= found;
      for (size_t other = 0; found == 0 && other < givers_.size(); ++other) {
        if (other == giver || flow_[taker][other] == 0) continue;
        found = push(other, std::min(wanted, flow_[taker][other]));
        flow_[taker][other] -= found;
      }
      if (found == 0) continue;
      flow_[taker][giver] += found;
      return found;
    }
    return 0;
  }

  std::vector<int> takers_, givers_;
  std::vector<int64_t> left_, missing_;
  std::vector<std::vector<int64_t>> flow_;
  std::vector<std::vector<bool>> may_;
  std::vector<bool> seen_;
};

}  // namespace

std::vector<int> topological_order(const PipelineProblem& problem) {
  const size_t count = problem.blocks.size();
  std::vector<int> waits(count, 0), order;
  std::vector<std::vector<size_t>> following(count);
  for (size_t i = 0; i < count; ++i)
    for (const int earlier : problem.blocks[i].after) following[static_cast<size_t>(earlier)].push_back(i), ++waits[i];
  for (size_t i = 0; i < count; ++i)
    if (waits[i] == 0) order.push_back(static_cast<int>(i));
  for (size_t at = 0; at < order.size(); ++at)
    for (const size_t next : following[static_cast<size_t>(order[at])])
      if (--waits[next] == 0) order.push_back(static_cast<int>(next));
  return order;
}

std::vector<std::vector<bool>> precedence_of(const PipelineProblem& problem) {
  const size_t count = problem.blocks.size();
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count, false));
  for (const int block : topological_order(problem))
    for (const int earlier : problem.blocks[static_cast<size_t>(block)].after)
      for (size_t a = 0; a < count; ++a)
        if (a == static_cast<size_t>(earlier) || before[a][static_cast<size_t>(earlier)])
          before[a][static_cast<size_t>(block)] = true;
  return before;
}

std::vector<PipelineEdge> cut_circles(PipelineProblem& problem) {
  const size_t count = problem.blocks.size();
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count, false));
  for (size_t b = 0; b < count; ++b)
    for (const int earlier : problem.blocks[b].after) before[static_cast<size_t>(earlier)][b] = true;
  for (size_t via = 0; via < count; ++via)
    for (size_t a = 0; a < count; ++a)
      for (size_t b = 0; b < count; ++b)
        if (before[a][via] && before[via][b]) before[a][b] = true;
  std::vector<PipelineEdge> cut;
  for (size_t b = 0; b < count; ++b)
    std::erase_if(problem.blocks[b].after, [&](int earlier) {
      if (!before[b][static_cast<size_t>(earlier)]) return false;
      cut.push_back({earlier, static_cast<int>(b)});
      return true;
    });
  return cut;
}

std::vector<std::vector<int>> blocks_by_device(const PipelineProblem& problem) {
  std::vector<std::vector<int>> blocks(problem.limits.size());
  for (size_t i = 0; i < problem.blocks.size(); ++i)
    for (const int device : problem.blocks[i].devices)
      blocks[static_cast<size_t>(device)].push_back(static_cast<int>(i));
  return blocks;
}

std::vector<int64_t> device_loads(const PipelineProblem& problem) {
  std::vector<int64_t> loads(problem.limits.size(), 0);
  for (const PipelineBlock& block : problem.blocks)
    for (const int device : block.devices) loads[static_cast<size_t>(device)] += block.time;
  return loads;
}

MemoryLeases leases_of(const PipelineProblem& problem, int device, const std::vector<std::vector<bool>>& before) {
  return LeaseFlow(problem, blocks_by_device(problem)[static_cast<size_t>(device)], before).run();
}

}  // namespace weftc
