// Figures of several times.
#pragma once
#include <vector>

namespace weft {

struct Latency {
  double median, mean, min, max, p90, p99;
};

/// Of one time at least; quantiles by the nearest rank method.
Latency latency_of(std::vector<double> ms);

}  // namespace weft
