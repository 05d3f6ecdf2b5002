// The search of one period: depth first over the order of blocks on devices, with starts as differences only, so that
// the unit of time costs nothing.
#include "passes/pipelining/period_search.h"

#include <algorithm>

#include "passes/pipelining/distances.h"
#include "passes/pipelining/gaps.h"

namespace weftc {

namespace {

// A search that makes no progress restarts, with what it has learned of the pairs. The first restart is after this many
// steps for each pair of blocks, each later one after more, so that a proof takes little longer than without restarts.
constexpr uint64_t kFirstSteps = 1000, kMoreSteps = 4;

// A search keeps its state at each decision; this many entries are enough for 500 decisions on 500 blocks.
constexpr size_t kMostKept = size_t{1} << 27;

/// Two blocks that share a device. The number of whole periods between their starts fixes their order on the circle of
/// the period, and which micro-batches of the one run between two of the other.
struct DevicePair {
  size_t first, second;
  std::vector<Gap> gaps;
  size_t shared;          // devices
  uint64_t failures = 1;  // contradictions that it had a part in
};

struct DeviceLease {
  size_t from, to;
  int64_t amount;
};

/// The data of a device that the search of memory needs.
struct DeviceMemory {
  int64_t limit;
  std::vector<size_t> blocks;
  std::vector<DeviceLease> leases;
};

class PeriodSearch {
 public:
  PeriodSearch(const PipelineProblem& problem, const std::vector<RepeatedOrder>& repeated, int64_t period,
               PipelineBudget& budget)
      : problem_(problem), repeated_(repeated), period_(period), budget_(budget) {}

  PeriodResult run() {
    const std::optional<Distances> root = begin();
    if (!root) return {PeriodAnswer::Impossible, {}};
    for (uint64_t steps = kFirstSteps * block_count() * block_count();; steps *= kMoreSteps) {
      left_ = std::min(steps, budget_.steps);
      budget_.steps -= left_;
      const PeriodAnswer answer = extend(*root, 0);
      budget_.steps += left_;
      if (answer != PeriodAnswer::Unknown || budget_.steps == 0) return {answer, std::move(starts_)};
    }
  }

 private:
  size_t block_count() const { return problem_.blocks.size(); }
  const PipelineBlock& block(size_t i) const { return problem_.blocks[i]; }

  std::optional<Distances> begin();
  bool bind_components(Distances& known) const;
  void collect_pairs();
  void collect_memory();

  bool propagate(Distances& known);
  bool propagate_pair(Distances& known, DevicePair& pair) const;
  bool propagate_memory(Distances& known, const DeviceMemory& device) const;
  int64_t least_count(const Distances& known, const DeviceLease& lease, size_t at) const;
  bool bound_count(Distances& known, const DeviceLease& lease, size_t at, int64_t most) const;

  PeriodAnswer extend(const Distances& known, size_t depth);
  DevicePair* choose(const Distances& known);
  int64_t fewest_periods(const Distances& known, const DevicePair& pair) const {
    return floor_divide(known.least(pair.first, pair.second), period_);
  }
  int64_t most_periods(const Distances& known, const DevicePair& pair) const {
    return floor_divide(known.most(pair.first, pair.second), period_);
  }
  bool spend(uint64_t steps) {
    const bool is_affordable = steps < left_;
    left_ -= std::min(steps, left_);
    return is_affordable;
  }

  const PipelineProblem& problem_;
  const std::vector<RepeatedOrder>& repeated_;
  const int64_t period_;
  PipelineBudget& budget_;
  std::vector<DevicePair> pairs_;
  std::vector<DeviceMemory> memory_;
  std::vector<int64_t> starts_;
  uint64_t left_ = 0;  // steps until the search restarts
};

/// A part of the problem that no dependency joins to the rest can be moved by whole periods without changing anything:
/// its first block stays within a period of block 0.
bool PeriodSearch::bind_components(Distances& known) const {
  std::vector<size_t> root(problem_.blocks.size());
  for (size_t i = 0; i < root.size(); ++i) root[i] = i;
  const auto find = [&](size_t i) {
    while (root[i] != i) i = root[i];
    return i;
  };
  const auto join = [&](size_t a, size_t b) { root[std::max(find(a), find(b))] = std::min(find(a), find(b)); };
  for (size_t i = 0; i < root.size(); ++i)
    for (const int earlier : block(i).after) join(i, static_cast<size_t>(earlier));
  for (const RepeatedOrder& order : repeated_) join(static_cast<size_t>(order.from), static_cast<size_t>(order.to));
  for (size_t i = 1; i < root.size(); ++i)
    if (root[i] == i && !(known.add(0, i, 0) && known.add(i, 0, 1 - period_))) return false;
  return true;
}

/// Starts are no further apart than 2 n periods. Suppose blocks form `n` groups with two or more whole periods empty
/// between two of them. Then the later groups can come a period earlier. No dependency breaks, since none reaches over
/// more than two periods. No device holds more, since the earlier blocks have given back no more than they have taken.
std::optional<Distances> PeriodSearch::begin() {
  const size_t count = problem_.blocks.size();
  Distances known(count, 2 * static_cast<int64_t>(count + 1) * period_);
  for (size_t i = 0; i < count; ++i)
    for (const int earlier : block(i).after) {
      const auto from = static_cast<size_t>(earlier);
      if (!known.add(from, i, block(from).time)) return {};
    }
  for (const RepeatedOrder& order : repeated_) {
    const auto from = static_cast<size_t>(order.from), to = static_cast<size_t>(order.to);
    if (!known.add(from, to, block(from).time - order.distance * period_)) return {};
  }
  if (!bind_components(known)) return {};
  collect_pairs();
  collect_memory();
  for (const DevicePair& pair : pairs_)
    if (pair.gaps.empty()) return {};
  for (size_t i = 0; i < count; ++i)
    if (block(i).time > period_) return {};
  if (!propagate(known)) return {};
  return known;
}

void PeriodSearch::collect_pairs() {
  for (size_t a = 0; a < problem_.blocks.size(); ++a)
    for (size_t b = a + 1; b < problem_.blocks.size(); ++b) {
      size_t shared = 0;
      for (const int device : block(a).devices)
        shared += static_cast<size_t>(std::count(block(b).devices.begin(), block(b).devices.end(), device));
      if (shared == 0) continue;
      pairs_.push_back({a, b, gaps_between(problem_, static_cast<int>(a), static_cast<int>(b), period_), shared});
    }
}

void PeriodSearch::collect_memory() {
  const std::vector<std::vector<bool>> before = precedence_of(problem_);
  const std::vector<std::vector<int>> blocks = blocks_by_device(problem_);
  for (size_t device = 0; device < problem_.limits.size(); ++device) {
    DeviceMemory memory;
    memory.limit = problem_.limits[device];
    if (memory.limit >= kNoLimit) continue;
    for (const int i : blocks[device])
      if (block(static_cast<size_t>(i)).memory > 0) memory.blocks.push_back(static_cast<size_t>(i));
    for (const MemoryLease& lease : leases_of(problem_, static_cast<int>(device), before).all)
      memory.leases.push_back({static_cast<size_t>(lease.from), static_cast<size_t>(lease.to), lease.amount});
    if (!memory.leases.empty()) memory_.push_back(std::move(memory));
  }
}

bool PeriodSearch::propagate_pair(Distances& known, DevicePair& pair) const {
  const int64_t least = round_to_gap(pair.gaps, known.least(pair.first, pair.second), period_, true);
  const int64_t most = round_to_gap(pair.gaps, known.most(pair.first, pair.second), period_, false);
  return known.add(pair.first, pair.second, least) && known.add(pair.second, pair.first, -most);
}

/// A lower bound on the number of micro-batches that hold a lease when block `at` starts (a lease that starts with it
/// counts).
int64_t PeriodSearch::least_count(const Distances& known, const DeviceLease& lease, size_t at) const {
  const int64_t begun = floor_divide(known.least(lease.from, at), period_);
  const int64_t ended = floor_divide(known.most(lease.to, at), period_);
  return std::max(begun - ended, floor_divide(known.least(lease.from, lease.to), period_));
}

/// Requires that at most `most` micro-batches hold a lease when block `at` starts.
bool PeriodSearch::bound_count(Distances& known, const DeviceLease& lease, size_t at, int64_t most) const {
  const int64_t begun = floor_divide(known.least(lease.from, at), period_);
  const int64_t ended = floor_divide(known.most(lease.to, at), period_);
  return known.add(lease.to, lease.from, 1 - (most + 1) * period_) &&
         known.add(at, lease.from, 1 - (most + ended + 1) * period_) &&
         known.add(lease.to, at, (begun - most) * period_);
}

bool PeriodSearch::propagate_memory(Distances& known, const DeviceMemory& device) const {
  std::vector<int64_t> counts(device.leases.size());
  for (const size_t at : device.blocks) {
    int64_t spare = device.limit;
    for (size_t i = 0; i < counts.size(); ++i) {
      counts[i] = least_count(known, device.leases[i], at);
      spare -= counts[i] * device.leases[i].amount;
    }
    if (spare < 0) return false;
    for (size_t i = 0; i < counts.size(); ++i)
      if (!bound_count(known, device.leases[i], at, counts[i] + spare / device.leases[i].amount)) return false;
  }
  return true;
}

bool PeriodSearch::propagate(Distances& known) {
  for (uint64_t before = known.steps() + 1; before != known.steps();) {
    before = known.steps();
    for (DevicePair& pair : pairs_)
      if (!propagate_pair(known, pair)) {
        ++pair.failures;
        return false;
      }
    for (const DeviceMemory& device : memory_)
      if (!propagate_memory(known, device)) return false;
  }
  return true;
}

/// The pair to decide next: few choices, many devices, and pairs that led to contradictions before (as in Boussemart et
/// al., "Boosting systematic search by weighting constraints", ECAI 2004).
DevicePair* PeriodSearch::choose(const Distances& known) {
  DevicePair* best = nullptr;
  double best_score = 0;
  for (DevicePair& pair : pairs_) {
    const int64_t choices = most_periods(known, pair) - fewest_periods(known, pair);
    if (choices == 0) continue;
    const double score = static_cast<double>(choices) / static_cast<double>(pair.failures * pair.shared);
    if (best && score >= best_score) continue;
    best = &pair;
    best_score = score;
  }
  return best;
}

PeriodAnswer PeriodSearch::extend(const Distances& known, size_t depth) {
  DevicePair* const pair = choose(known);
  if (!pair) {
    starts_ = known.earliest();
    return PeriodAnswer::Found;
  }
  const bool is_later = known.least(pair->first, pair->second) + known.most(pair->first, pair->second) >= 0;
  const int64_t cut = is_later ? (fewest_periods(known, *pair) + 1) * period_ : most_periods(known, *pair) * period_;
  for (const bool near : {true, false}) {
    Distances next = known;
    const bool is_below = near == is_later;
    const bool fits = is_below ? next.add(pair->second, pair->first, -cut) : next.add(pair->first, pair->second, cut);
    const bool holds = fits && propagate(next);
    if (!spend(next.steps() - known.steps() + pairs_.size() * 4 + block_count() * block_count() / 4))
      return PeriodAnswer::Unknown;
    if (!holds) {
      ++pair->failures;
      continue;
    }
    if ((depth + 1) * block_count() * block_count() > kMostKept) return PeriodAnswer::Unknown;
    const PeriodAnswer answer = extend(next, depth + 1);
    if (answer != PeriodAnswer::Impossible) return answer;
  }
  return PeriodAnswer::Impossible;
}

}  // namespace

PeriodResult search_period(const PipelineProblem& problem, const std::vector<RepeatedOrder>& repeated, int64_t period,
                           PipelineBudget& budget) {
  return PeriodSearch(problem, repeated, period, budget).run();
}

}  // namespace weftc
