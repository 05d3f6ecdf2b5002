// Chooses for all nodes of a region, one node after another in reverse order of elimination. The tables of the
// elimination guide it: they estimate the cost of the rest, exactly if no table was divided. Among partial choices on
// which the same tables depend, the best one is enough; of the others the best `width` are kept.
#pragma once
#include <random>

#include "passes/partition/mini_buckets.h"

namespace weftc {

struct BeamLimits {
  size_t width = 100;
  double ceiling = 0;      // choices that cost more are left out
  bool is_merging = true;  // of choices that differ only where no remaining table depends on them, keep the best
};
struct BeamResult {
  struct Found {
    double cost;
    std::vector<uint16_t> picks;  // by node
  };
  std::vector<Found> found;  // the best first
  bool is_complete = true;   // below the ceiling only merging left out choices
};

/// `bound`: the last bound that `buckets` found.
BeamResult search_beam(const MiniBuckets& buckets, const Region& region, double bound, const BeamLimits& limits,
                       std::mt19937_64& random, SearchBudget& budget);

}  // namespace weftc
