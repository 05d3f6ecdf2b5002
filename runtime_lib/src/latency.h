// Statistics of times.
#pragma once
#include <vector>

namespace weft {

struct Latency {
  double median, mean, min, max, p90, p99;
};

/// Statistics of at least one time. Quantiles are by the nearest-rank method.
Latency latency_of(std::vector<double> ms);

}  // namespace weft
