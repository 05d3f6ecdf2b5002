// How random draws count the iterations of the enclosing Loops (README.md, Randomness).
#pragma once
#include <cstdint>

namespace weftc {

/// 2^32 over the golden ratio: multiples by small numbers are far apart modulo 2^32.
inline constexpr uint32_t kTripStride = 2654435769;

/// The number of trip `trip` of a Loop inside trip `outer` of another one (0: not nested).
inline uint32_t trip_within(uint32_t outer, int64_t trip) { return outer * kTripStride + static_cast<uint32_t>(trip); }

}  // namespace weftc
