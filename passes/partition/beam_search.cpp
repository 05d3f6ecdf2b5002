// Beam search that a mini-bucket bound guides.
#include "passes/partition/beam_search.h"

#include <algorithm>

namespace weftc {

namespace {

// Entries of a table that take as long as to copy a partial choice, and as to rank one more choice.
constexpr double kWorkOfPartial = 300;
constexpr size_t kWorkOfChoice = 100;

using BeamFound = BeamResult::Found;

/// A partial choice with one more node.
struct PartialChoice {
  double cost;
  uint32_t from;     // the partial choice
  uint32_t tie;      // random: which of equal ones is better
  uint64_t context;  // a hash of the choices on which remaining tables depend
  uint16_t pick;
};

bool costs_less(const PartialChoice& p, const PartialChoice& q) {
  return p.cost != q.cost ? p.cost < q.cost : p.tie < q.tie;
}

class BeamSearch {
 public:
  BeamSearch(const MiniBuckets& buckets, const Region& region, const BeamLimits& limits, std::mt19937_64& random,
             SearchBudget& budget)
      : buckets_(buckets),
        region_(region),
        limits_(limits),
        random_(random),
        budget_(budget),
        keys_(region.nodes.size()) {
    for (uint64_t& key : keys_) key = random() | 1;
  }

  BeamResult run(double bound) {
    BeamResult result;
    result.found.push_back({bound, std::vector<uint16_t>(region_.nodes.size(), 0)});
    for (int at = buckets_.size() - 1; at >= 0 && !result.found.empty(); --at) {
      if (budget_.is_over()) return {{}, false};
      if (limits_.is_merging && buckets_.is_alone(at)) {
        for (BeamFound& partial : result.found) partial.picks[buckets_.node_of(at)] = buckets_.cheapest(at);
        continue;
      }
      std::vector<PartialChoice> candidates = extend(at, result.found);
      if (limits_.is_merging) merge(candidates);
      if (candidates.size() > limits_.width) {
        result.is_complete = false;
        std::nth_element(candidates.begin(), candidates.begin() + limits_.width, candidates.end(), costs_less);
        candidates.resize(limits_.width);
      }
      std::vector<BeamFound> next;
      next.reserve(candidates.size());
      for (const PartialChoice& candidate : candidates) {
        next.push_back({candidate.cost, result.found[candidate.from].picks});
        next.back().picks[buckets_.node_of(at)] = candidate.pick;
      }
      result.found = std::move(next);
    }
    std::sort(result.found.begin(), result.found.end(),
              [](const BeamFound& p, const BeamFound& q) { return p.cost < q.cost; });
    return result;
  }

 private:
  std::vector<PartialChoice> extend(int at, const std::vector<BeamFound>& partial) {
    std::vector<int> context;  // nodes that are decided, on which buckets that are left depend
    for (int after = at + 1; limits_.is_merging && after < buckets_.size(); ++after)
      if (const int node = buckets_.node_of(after); buckets_.first_use()[node] < at) context.push_back(node);
    const int node = buckets_.node_of(at);
    const bool is_used = buckets_.first_use()[node] < at;
    budget_.spend(
        static_cast<double>(partial.size()) *
        (kWorkOfPartial + static_cast<double>(context.size() + kWorkOfChoice * region_.choices[node].size())));
    std::vector<PartialChoice> candidates;
    std::vector<double> costs(region_.choices[node].size());
    for (size_t from = 0; from < partial.size(); ++from) {
      std::fill(costs.begin(), costs.end(), partial[from].cost);
      buckets_.add_changes(at, partial[from].picks, costs);
      uint64_t hash = 0;
      for (const int other : context) hash += mixed(other, partial[from].picks[other]);
      for (size_t x = 0; x < costs.size(); ++x) {
        if (costs[x] > limits_.ceiling) continue;
        const uint64_t own = is_used ? mixed(node, x) : 0;
        candidates.push_back({costs[x], static_cast<uint32_t>(from), static_cast<uint32_t>(random_()), hash + own,
                              static_cast<uint16_t>(x)});
      }
    }
    return candidates;
  }

  uint64_t mixed(int node, size_t pick) const {
    const uint64_t product = (pick + 1) * keys_[node];
    return product ^ product >> 29;
  }

  static void merge(std::vector<PartialChoice>& candidates) {
    std::sort(candidates.begin(), candidates.end(), [](const PartialChoice& p, const PartialChoice& q) {
      return p.context != q.context ? p.context < q.context : costs_less(p, q);
    });
    const auto end = std::unique(candidates.begin(), candidates.end(),
                                 [](const PartialChoice& p, const PartialChoice& q) { return p.context == q.context; });
    candidates.erase(end, candidates.end());
  }

  const MiniBuckets& buckets_;
  const Region& region_;
  const BeamLimits& limits_;
  std::mt19937_64& random_;
  SearchBudget& budget_;
  std::vector<uint64_t> keys_;
};

}  // namespace

BeamResult search_beam(const MiniBuckets& buckets, const Region& region, double bound, const BeamLimits& limits,
                       std::mt19937_64& random, SearchBudget& budget) {
  return BeamSearch(buckets, region, limits, random, budget).run(bound);
}

}  // namespace weftc
