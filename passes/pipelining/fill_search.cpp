// Partial schedules are identified by how many micro-batches each block has started, since a block takes them in turn.
// If two have the same counts, one that is nowhere later than the other dominates it.
#include "passes/pipelining/fill_search.h"

#include <algorithm>
#include <map>

namespace weftc {

namespace {

// The number of partial schedules with the same counts and lower bounds that one is compared with; most dominated ones
// are dominated by one of the first.
constexpr size_t kMostAlike = 4;

/// The last block of a partial schedule, and the index in the previous level of the one that it was added to.
struct Started {
  size_t parent;
  int block;
  int64_t at;
};

struct Partial {
  std::vector<int> counts;    // started micro-batches, by block
  std::vector<int64_t> free;  // by device
  std::vector<int64_t> held;  // memory, by device
  std::vector<int64_t> ends;  // by block, then by micro-batch: of the started ones
  int64_t now = 0;            // nothing starts before
};

/// A partial schedule with one block more, not made yet.
struct Child {
  int64_t bound;
  int64_t rank;  // less is better, of those with one bound
  size_t parent;
  int block;
  int64_t at;
};

class FillSearch {
 public:
  FillSearch(const PipelineProblem& problem, int micro_batches)
      : problem_(problem),
        order_(topological_order(problem)),
        on_device_(blocks_by_device(problem)),
        micro_batches_(micro_batches),
        tails_(problem.blocks.size(), 0),
        heads_(problem.blocks.size(), 0) {
    for (auto at = order_.rbegin(); at != order_.rend(); ++at)
      for (const int earlier : block(*at).after)
        tails_[index(earlier)] = std::max(tails_[index(earlier)], tails_[index(*at)] + block(*at).time);
  }

  FillResult run(int64_t below, FillPreference preference, size_t width);
  int64_t bound_of_all() {
    const Partial nothing = begin();
    return bound(nothing);
  }

 private:
  static size_t index(int i) { return static_cast<size_t>(i); }
  size_t place(int i, int micro_batch) const { return index(i) * index(micro_batches_) + index(micro_batch); }
  const PipelineBlock& block(int i) const { return problem_.blocks[index(i)]; }

  Partial begin() const;
  bool is_ready(const Partial& partial, int i) const;
  int64_t start_of(const Partial& partial, int i) const;
  void start(Partial& partial, int i, int64_t at) const;
  int64_t bound(const Partial& partial);
  int64_t rank(const Partial& partial, FillPreference preference) const;
  void branch(Partial& partial, size_t number, int64_t below, FillPreference preference, std::vector<Child>& children);
  bool is_after(const Partial& a, const Partial& b) const;
  bool keep(const std::vector<Child>& children, const std::vector<Partial>& level, size_t width,
            std::vector<Partial>& next);
  PipelineStarts starts_of(Partial last, size_t number) const;

  const PipelineProblem& problem_;
  const std::vector<int> order_;
  const std::vector<std::vector<int>> on_device_;
  const int micro_batches_;
  std::vector<int64_t> tails_;                    // by block: the least time of the blocks of the same micro-batch that
                                                  // follow it
  std::vector<int64_t> heads_;                    // of bound(): the earliest start of each block's next micro-batch
  std::vector<std::pair<int64_t, int>> by_head_;  // of bound()
  std::vector<std::vector<Started>> history_;     // by level
};

Partial FillSearch::begin() const {
  Partial partial;
  partial.counts.assign(problem_.blocks.size(), 0);
  partial.free.assign(problem_.limits.size(), 0);
  partial.held = partial.free;
  partial.ends.assign(problem_.blocks.size() * index(micro_batches_), 0);
  return partial;
}

bool FillSearch::is_ready(const Partial& partial, int i) const {
  const int number = partial.counts[index(i)];
  if (number == micro_batches_) return false;
  for (const int earlier : block(i).after)
    if (partial.counts[index(earlier)] <= number) return false;
  for (const int device : block(i).devices)
    if (partial.held[index(device)] + block(i).memory > problem_.limits[index(device)]) return false;
  return true;
}

int64_t FillSearch::start_of(const Partial& partial, int i) const {
  int64_t at = partial.now;
  for (const int device : block(i).devices) at = std::max(at, partial.free[index(device)]);
  for (const int earlier : block(i).after) at = std::max(at, partial.ends[place(earlier, partial.counts[index(i)])]);
  return at;
}

void FillSearch::start(Partial& partial, int i, int64_t at) const {
  partial.ends[place(i, partial.counts[index(i)]++)] = at + block(i).time;
  partial.now = at;
  for (const int device : block(i).devices) {
    partial.free[index(device)] = at + block(i).time;
    partial.held[index(device)] += block(i).memory;
  }
}

/// A lower bound on the end of all blocks. For each device and each moment at which a block can start next, adds the
/// remaining time of the blocks that start no earlier, and the shortest time of what follows them.
int64_t FillSearch::bound(const Partial& partial) {
  int64_t bound = 0;
  for (const int64_t free : partial.free) bound = std::max(bound, free);
  for (const int i : order_) {
    const int number = partial.counts[index(i)];
    if (number == micro_batches_) continue;
    int64_t head = partial.now;
    for (const int device : block(i).devices) head = std::max(head, partial.free[index(device)]);
    for (const int earlier : block(i).after) {
      const int missing = number + 1 - partial.counts[index(earlier)];
      const int64_t end =
          missing > 0 ? heads_[index(earlier)] + missing * block(earlier).time : partial.ends[place(earlier, number)];
      head = std::max(head, end);
    }
    heads_[index(i)] = head;
    bound = std::max(bound, head + (micro_batches_ - number) * block(i).time + tails_[index(i)]);
  }
  for (const std::vector<int>& blocks : on_device_) {
    by_head_.clear();
    for (const int i : blocks)
      if (partial.counts[index(i)] < micro_batches_) by_head_.push_back({heads_[index(i)], i});
    std::sort(by_head_.rbegin(), by_head_.rend());
    int64_t work = 0, tail = INT64_MAX;
    for (const auto& [head, i] : by_head_) {
      work += (micro_batches_ - partial.counts[index(i)]) * block(i).time;
      tail = std::min(tail, tails_[index(i)]);
      bound = std::max(bound, head + work + tail);
    }
  }
  return bound;
}

int64_t FillSearch::rank(const Partial& partial, FillPreference preference) const {
  int64_t sum = 0;
  for (size_t device = 0; device < on_device_.size(); ++device) {
    sum += partial.free[device];
    if (preference == FillPreference::FewIdle)
      for (const int i : on_device_[device]) sum -= partial.counts[index(i)] * block(i).time;
  }
  return sum;
}

/// Each block that can start next, unless a block that takes no memory can end before it: that block fits into the time
/// before, without harm.
void FillSearch::branch(Partial& partial, size_t number, int64_t below, FillPreference preference,
                        std::vector<Child>& children) {
  std::vector<std::pair<int, int64_t>> ready;
  for (const int i : order_)
    if (is_ready(partial, i)) ready.push_back({i, start_of(partial, i)});
  int64_t first_end = INT64_MAX;
  for (const auto& [i, at] : ready)
    if (block(i).memory <= 0) first_end = std::min(first_end, at + block(i).time);
  for (const auto& [i, at] : ready) {
    if (at >= first_end) continue;
    const int64_t now = partial.now;
    std::vector<int64_t> free;
    for (const int device : block(i).devices) free.push_back(partial.free[index(device)]);
    start(partial, i, at);
    const int64_t lower = bound(partial);
    if (lower < below) children.push_back({lower, rank(partial, preference), number, i, at});
    --partial.counts[index(i)];
    partial.now = now;
    for (size_t device = 0; device < free.size(); ++device) {
      partial.free[index(block(i).devices[device])] = free[device];
      partial.held[index(block(i).devices[device])] -= block(i).memory;
    }
  }
}

/// Whether `a`, which has the same counts, is nowhere earlier than `b`.
bool FillSearch::is_after(const Partial& a, const Partial& b) const {
  if (a.now < b.now) return false;
  for (size_t device = 0; device < a.free.size(); ++device)
    if (a.free[device] < b.free[device]) return false;
  for (const int i : order_)
    for (const int earlier : block(i).after)
      for (int m = a.counts[index(i)]; m < a.counts[index(earlier)]; ++m) {
        const int64_t end = a.ends[place(earlier, m)];
        if (end > a.now && end < b.ends[place(earlier, m)]) return false;
        if (end <= a.now && a.now < b.ends[place(earlier, m)]) return false;
      }
  return true;
}

/// Makes the best of the children; false where some that could lead further are left out.
bool FillSearch::keep(const std::vector<Child>& children, const std::vector<Partial>& level, size_t width,
                      std::vector<Partial>& next) {
  history_.emplace_back();
  std::map<std::vector<int>, std::vector<size_t>> alike;
  for (const Child& child : children) {
    if (next.size() == width) return false;
    Partial partial = level[child.parent];
    start(partial, child.block, child.at);
    std::vector<size_t>& same = alike[partial.counts];
    const auto is_needless = [&](size_t other) { return is_after(partial, next[other]); };
    const auto compared = same.begin() + static_cast<std::ptrdiff_t>(std::min(same.size(), kMostAlike));
    if (std::any_of(same.begin(), compared, is_needless)) continue;
    history_.back().push_back({child.parent, child.block, child.at});
    same.push_back(next.size());
    next.push_back(std::move(partial));
  }
  return true;
}

PipelineStarts FillSearch::starts_of(Partial last, size_t number) const {
  PipelineStarts starts(index(micro_batches_), std::vector<int64_t>(problem_.blocks.size(), 0));
  for (auto level = history_.rbegin(); level != history_.rend(); ++level) {
    const Started& started = (*level)[number];
    starts[index(--last.counts[index(started.block)])][index(started.block)] = started.at;
    number = started.parent;
  }
  return starts;
}

FillResult FillSearch::run(int64_t below, FillPreference preference, size_t width) {
  FillResult result;
  result.is_complete = true;
  std::vector<Partial> level = {begin()};
  const size_t all = problem_.blocks.size() * index(micro_batches_);
  for (size_t started = 0; started < all && !level.empty(); ++started) {
    std::vector<Child> children;
    for (size_t i = 0; i < level.size(); ++i) branch(level[i], i, below, preference, children);
    std::stable_sort(children.begin(), children.end(), [](const Child& a, const Child& b) {
      return a.bound != b.bound ? a.bound < b.bound : a.rank < b.rank;
    });
    std::vector<Partial> next;
    result.is_complete &= keep(children, level, width, next);
    level = std::move(next);
  }
  const auto end_of = [](const Partial& partial) {
    return *std::max_element(partial.free.begin(), partial.free.end());
  };
  const auto best = std::min_element(level.begin(), level.end(),
                                     [&](const Partial& a, const Partial& b) { return end_of(a) < end_of(b); });
  if (best != level.end()) result.starts = starts_of(*best, static_cast<size_t>(best - level.begin()));
  return result;
}

/// The problem without blocks that use every device: blocks before and after such a block wait for each other directly.
PipelineProblem without_whole_blocks(const PipelineProblem& problem, const std::vector<bool>& is_whole) {
  PipelineProblem rest;
  rest.limits = problem.limits;
  std::vector<std::vector<int>> ends(problem.blocks.size());  // by block: itself, or the remaining blocks that it
                                                              // stands for
  for (const int at : topological_order(problem)) {
    const auto i = static_cast<size_t>(at);
    std::vector<int> after;
    for (const int earlier : problem.blocks[i].after)
      for (const int end : ends[static_cast<size_t>(earlier)])
        if (std::count(after.begin(), after.end(), end) == 0) after.push_back(end);
    ends[i] = is_whole[i] ? after : std::vector<int>{static_cast<int>(rest.blocks.size())};
    if (is_whole[i]) continue;
    rest.blocks.push_back(problem.blocks[i]);
    rest.blocks.back().after = std::move(after);
  }
  return rest;
}

}  // namespace

FillResult search_fill(const PipelineProblem& problem, int micro_batches, int64_t below, FillPreference preference,
                       size_t width) {
  return FillSearch(problem, micro_batches).run(below, preference, width);
}

int64_t least_makespan(const PipelineProblem& problem, int micro_batches) {
  const std::vector<std::vector<int>> on_device = blocks_by_device(problem);
  const auto is_used = [](const std::vector<int>& blocks) { return !blocks.empty(); };
  const auto devices = static_cast<size_t>(std::count_if(on_device.begin(), on_device.end(), is_used));
  std::vector<bool> is_whole;
  int64_t whole = 0;
  for (const PipelineBlock& block : problem.blocks) {
    is_whole.push_back(block.devices.size() == devices);
    if (is_whole.back()) whole += block.time * micro_batches;
  }
  const PipelineProblem rest = without_whole_blocks(problem, is_whole);
  return std::max(FillSearch(problem, micro_batches).bound_of_all(),
                  whole + FillSearch(rest, micro_batches).bound_of_all());
}

}  // namespace weftc
