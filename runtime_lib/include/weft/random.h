// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"): the draw of an element depends on its
// global index only, so it is the same for every layout, chunking and target.
#pragma once
#include <array>
#include <cstdint>

namespace weft {

constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xd2511f53u} * counter[0], b = uint64_t{0xcd9e8d57u} * counter[2];
    counter = {uint32_t(b >> 32) ^ counter[1] ^ key[0], uint32_t(b), uint32_t(a >> 32) ^ counter[3] ^ key[1],
               uint32_t(a)};
    key = {key[0] + 0x9e3779b9u, key[1] + 0xbb67ae85u};
  }
  return counter;
}

/// The stream of one random node: key = (seed, index of the node in the imported graph).
struct Random {
  uint32_t seed, node;
  uint32_t trip = 0, invocation = 0;  // of the enclosing loop; Rank::invocation()

  /// 32 random bits for the element with this global linear index.
  constexpr uint32_t bits(int64_t element) const {
    return philox({uint32_t(element), uint32_t(uint64_t(element) >> 32), trip, invocation}, {seed, node})[0];
  }
  /// Uniform in [0, 1): the upper 24 bits.
  constexpr float uniform(int64_t element) const { return float(bits(element) >> 8) * 0x1p-24f; }
};

}  // namespace weft
