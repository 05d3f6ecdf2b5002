// Lagrangian search of a region.
#include "passes/partition/region_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weftc {

namespace {

// Sums of thousands of doubles are off by less than this part of them.
constexpr double kRounding = 1e-11;
// Costs are whole numbers: a better one is better by 1.
constexpr double kLeastGain = 0.999;
// The number of best choices of a beam that are checked for memory.
constexpr size_t kMostTried = 30;

class RegionSearch {
 public:
  RegionSearch(const SearchGraph& graph, SearchState& state, const Region& region, const RegionEffort& effort)
      : graph_(graph),
        state_(state),
        region_(region),
        effort_(effort),
        buckets_(region, effort.entries),
        priced_(region.costs),
        prices_(region.times.size(), 0) {
    for (size_t k = 0; k < prices_.size(); ++k)
      for (int t = region.times[k].first; t < region.times[k].last; ++t) prices_[k] += state.prices[t];
  }

  RegionResult run() {
    const Assignment& present = state_.assignment;
    has_present_ = present.cost < SearchGraph::kForbidden && present.excess() == 0;
    best_ = has_present_ ? region_.cost_of(region_.present_picks(present)) : SearchGraph::kForbidden;
    for (int round = 0; round < effort_.rounds && !state_.budget.is_over() && !result_.is_complete; ++round)
      if (!try_prices()) break;
    if (!best_prices_.empty()) put_prices_back();
    if (!picks_.empty()) result_.choices = region_.choices_of(picks_);
    result_.lower_bound = lower_bound_;
    return result_;
  }

 private:
  /// One round; false where there is nothing to learn from it.
  bool try_prices() {
    is_rising_ = false;
    region_.add_prices(prices_, priced_);
    double room_price = 0;
    for (size_t k = 0; k < prices_.size(); ++k) room_price += prices_[k] * region_.times[k].room;
    const double priced_bound = buckets_.bound(priced_, state_.budget), bound = priced_bound - room_price;
    note_bound(bound);
    if (state_.budget.is_over() || is_beaten(bound)) return false;
    const double slack = kRounding * (std::abs(best_) + room_price);
    const bool takes_equal = has_present_ && picks_.empty() && effort_.is_merging;
    BeamLimits limits{effort_.width, best_ + room_price - (takes_equal ? 0 : kLeastGain) + slack, effort_.is_merging};
    const BeamResult beam = search_beam(buckets_, region_, priced_bound, limits, state_.random, state_.budget);
    if (state_.budget.is_over()) return false;
    const bool is_all = beam.is_complete && (!effort_.is_merging || region_.times.empty());
    const double known =
        beam.is_complete ? beam.found.empty() ? best_ - kLeastGain : beam.found[0].cost - room_price : bound;
    take_best(beam.found, is_all ? beam.found.size() : kMostTried, takes_equal);
    note_bound(std::min(known, best_));
    if (is_all || (beam.is_complete && beam.found.empty())) result_.is_complete = true;
    return !beam.found.empty() && !is_beaten(known) && move_prices(std::max(known, bound), beam.found[0].picks);
  }

  bool is_beaten(double bound) {
    if (bound <= best_ - kLeastGain + kRounding * std::abs(best_)) return false;
    result_.is_complete = true;
    return true;
  }

  void note_bound(double bound) {
    if (bound <= lower_bound_) return;
    is_rising_ = true;
    lower_bound_ = bound;
    best_prices_ = prices_;
  }

  void take_best(const std::vector<BeamResult::Found>& found, size_t most, bool takes_equal) {
    for (size_t f = 0; f < found.size() && f < most; ++f) {
      const std::vector<int> picks(found[f].picks.begin(), found[f].picks.end());
      const double cost = region_.cost_of(picks);
      const bool is_equal = takes_equal && picks_.empty() && cost == best_;
      if ((cost >= best_ && !is_equal) || !has_room(picks)) continue;
      result_.is_better |= cost < best_;
      best_ = cost;
      picks_ = picks;
    }
  }

  bool has_room(const std::vector<int>& picks) {
    region_.usage_of(picks, usage_);
    for (size_t k = 0; k < prices_.size(); ++k)
      if (usage_[k] > region_.times[k].room) return false;
    return true;
  }

  /// A step towards prices with which the best choices use just the available memory. False where it is used by now.
  bool move_prices(double bound, const std::vector<uint16_t>& picks) {
    region_.usage_of({picks.begin(), picks.end()}, usage_);
    double squares = 0;
    for (size_t k = 0; k < prices_.size(); ++k) {
      const double excess = usage_[k] - region_.times[k].room;
      if (excess > 0 || prices_[k] > 0) squares += excess * excess;
    }
    if (squares == 0) return false;
    if (!is_rising_ && ++rounds_without_rise_ % 3 == 0) step_ *= 0.6;
    const double gap = best_ < SearchGraph::kForbidden ? best_ - bound : 0.3 * std::abs(bound) + 1;
    for (size_t k = 0; k < prices_.size(); ++k) {
      const double excess = usage_[k] - region_.times[k].room;
      if (excess > 0 || prices_[k] > 0) prices_[k] = std::max(0.0, prices_[k] + step_ * gap / squares * excess);
    }
    return true;
  }

  /// Distributes the region's prices to the times of the graph: in proportion to their present prices, or all to the
  /// tightest time if these are 0.
  void put_prices_back() {
    for (size_t k = 0; k < prices_.size(); ++k) {
      const Region::Time& time = region_.times[k];
      double before = 0;
      for (int t = time.first; t < time.last; ++t) before += state_.prices[t];
      if (before == 0) state_.prices[time.tightest] = best_prices_[k];
      for (int t = time.first; t < time.last && before > 0; ++t) state_.prices[t] *= best_prices_[k] / before;
    }
  }

  const SearchGraph& graph_;
  SearchState& state_;
  const Region& region_;
  const RegionEffort& effort_;
  MiniBuckets buckets_;
  std::vector<std::vector<double>> priced_;
  std::vector<double> prices_, best_prices_, usage_;  // best: with which the bound was highest
  RegionResult result_;
  std::vector<int> picks_;
  bool has_present_ = false, is_rising_ = true;
  double best_ = 0, lower_bound_ = -std::numeric_limits<double>::infinity(), step_ = 1;
  int rounds_without_rise_ = 0;
};

}  // namespace

RegionResult search_region(const SearchGraph& graph, SearchState& state, const std::vector<int>& nodes,
                           const RegionEffort& effort) {
  const Region region(graph, state.assignment, nodes, state.place);
  state.budget.spend(region.work());
  if (region.is_impossible()) {
    RegionResult result;
    result.is_complete = true;
    result.lower_bound = SearchGraph::kForbidden;
    return result;
  }
  return RegionSearch(graph, state, region, effort).run();
}

}  // namespace weftc
