// Philox against the published vectors of its authors.
#include "weft/random.h"

#include <doctest/doctest.h>

using Words = std::array<uint32_t, 4>;

TEST_CASE("random: known answers of philox4x32-10") {
  CHECK(weft::philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const uint32_t ones = 0xffffffff;
  CHECK(weft::philox({ones, ones, ones, ones}, {ones, ones}) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(weft::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("random: a draw depends on the element, the node, the trip and the invocation") {
  const weft::Random node{.seed = 1, .node = 2};
  CHECK(node.bits(5) == weft::philox({5, 0, 0, 0}, {1, 2})[0]);
  CHECK(node.bits(int64_t{7} << 32 | 5) == weft::philox({5, 7, 0, 0}, {1, 2})[0]);
  CHECK(weft::Random{1, 2, 3, 4}.bits(0) == weft::philox({0, 0, 3, 4}, {1, 2})[0]);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    CHECK(node.uniform(i) < 1);
    sum += node.uniform(i);
  }
  CHECK(sum / 10000 == doctest::Approx(0.5).epsilon(0.02));
}
