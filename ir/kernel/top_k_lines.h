// Two ways to find the first k elements of a line on the host, as weft/top_k.h chooses them: passes of vector
// operations that find one element each, or one pass that keeps candidates.
#pragma once
#include <algorithm>
#include <cstdint>

namespace weftc {

/// True if passes find the elements: for few elements of a short line.
constexpr bool finds_by_passes(int64_t length, int64_t k) { return k <= 8 && length <= 1024; }
/// The most candidates that are kept before they are cut to k.
constexpr int64_t most_candidates(int64_t length, int64_t k) { return std::min(length, std::max<int64_t>(2 * k, 128)); }

}  // namespace weftc
