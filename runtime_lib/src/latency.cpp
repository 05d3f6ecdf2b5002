// Figures of several times; see latency.h.
#include "latency.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace weft {

Latency latency_of(std::vector<double> ms) {
  std::sort(ms.begin(), ms.end());
  const size_t n = ms.size();
  const auto quantile = [&](double q) { return ms[std::min(n - 1, size_t(std::ceil(q * double(n))) - 1)]; };
  const double median = n % 2 == 1 ? ms[n / 2] : (ms[n / 2 - 1] + ms[n / 2]) / 2;
  return {median,        std::accumulate(ms.begin(), ms.end(), 0.0) / double(n), ms.front(), ms.back(), quantile(0.9),
          quantile(0.99)};
}

}  // namespace weft
