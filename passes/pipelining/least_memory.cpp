// A search over sets of finished blocks. The memory that is held depends on the set alone, so no set is visited twice.
// A block that takes no memory anywhere runs at once, because that never makes another order worse.
#include "passes/pipelining/least_memory.h"

#include <algorithm>
#include <set>

namespace weftc {

namespace {

// The number of sets after which the search gives up.
constexpr size_t kMostSets = 200'000;

class OrderSearch {
 public:
  explicit OrderSearch(const PipelineProblem& problem)
      : problem_(problem), done_(problem.blocks.size(), false), held_(problem.limits.size(), 0) {}

  OrderResult run() {
    const bool is_found = extend();
    return {is_found, is_found || failed_.size() < kMostSets, order_};
  }

 private:
  const PipelineBlock& block(size_t i) const { return problem_.blocks[i]; }

  bool is_ready(size_t i) const {
    const auto is_done = [&](int earlier) { return done_[static_cast<size_t>(earlier)]; };
    return !done_[i] && std::all_of(block(i).after.begin(), block(i).after.end(), is_done);
  }
  bool fits(size_t i) const {
    return std::all_of(block(i).devices.begin(), block(i).devices.end(), [&](int device) {
      const auto at = static_cast<size_t>(device);
      return held_[at] + block(i).memory <= problem_.limits[at];
    });
  }
  void set(size_t i, bool is_done) {
    done_[i] = is_done;
    for (const int device : block(i).devices)
      held_[static_cast<size_t>(device)] += is_done ? block(i).memory : -block(i).memory;
    if (is_done)
      order_.push_back(static_cast<int>(i));
    else
      order_.pop_back();
  }
  /// It takes nothing where there is a limit.
  bool is_free(size_t i) const {
    return block(i).memory <= 0 || std::all_of(block(i).devices.begin(), block(i).devices.end(), [&](int device) {
             return problem_.limits[static_cast<size_t>(device)] >= kNoLimit;
           });
  }
  size_t do_free_ones() {
    size_t count = 0;
    for (bool found = true; found;) {
      found = false;
      for (size_t i = 0; i < done_.size(); ++i)
        if (is_free(i) && is_ready(i)) set(i, true), ++count, found = true;
    }
    return count;
  }

  bool extend() {
    size_t count = do_free_ones();
    if (order_.size() == done_.size()) return true;
    if (failed_.size() < kMostSets && failed_.insert(done_).second)
      for (size_t i = 0; i < done_.size(); ++i) {
        if (!is_ready(i) || !fits(i)) continue;
        set(i, true);
        if (extend()) return true;
        set(i, false);
      }
    for (; count > 0; --count) set(static_cast<size_t>(order_.back()), false);
    return false;
  }

  const PipelineProblem& problem_;
  std::vector<bool> done_;
  std::vector<int64_t> held_;
  std::vector<int> order_;
  std::set<std::vector<bool>> failed_;
};

}  // namespace

OrderResult order_within(const PipelineProblem& problem) { return OrderSearch(problem).run(); }

int64_t least_limit(const PipelineProblem& problem, size_t device) {
  PipelineProblem alone = problem;
  std::fill(alone.limits.begin(), alone.limits.end(), kNoLimit);
  int64_t low = 0, high = 0;
  for (const PipelineBlock& block : problem.blocks) high += std::max<int64_t>(block.memory, 0);
  while (low < high) {
    alone.limits[device] = low + (high - low) / 2;
    if (order_within(alone).is_found)
      high = alone.limits[device];
    else
      low = alone.limits[device] + 1;
  }
  return low;
}

}  // namespace weftc
