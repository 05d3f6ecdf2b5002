// Choices for all nodes of a region, one node after the other in reverse order of elimination. What the tables of the
// elimination promise for the rest guides it, exactly where none was divided. Of partial choices on which the same
// tables depend the best one is enough; of the others so many are kept.
#pragma once
#include <random>

#include "passes/partition/mini_buckets.h"

namespace weftc {

struct BeamLimits {
  size_t width = 100;
  double ceiling = 0;      // what costs more is left out
  bool is_merging = true;  // keep the best of those that differ only in what no table that is left depends on
};
struct BeamResult {
  struct Found {
    double cost;
    std::vector<uint16_t> picks;  // by node
  };
  std::vector<Found> found;  // the best first
  bool is_complete = true;   // nothing below the ceiling was left out but by merging
};

/// `bound`: what `buckets` last found.
BeamResult search_beam(const MiniBuckets& buckets, const Region& region, double bound, const BeamLimits& limits,
                       std::mt19937_64& random, SearchBudget& budget);

}  // namespace weftc
