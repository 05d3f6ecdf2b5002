// Random delays around the flags of emitted kernels: the packer writes delayed(peers) where they say peers, and a delay
// where they begin. What is visible too early, or too late, then meets poisoned windows.
#pragma once
#include "weft/device.h"

namespace weft_test {

/// Half of all warps go on at once, the others wait up to 20 us.
WEFT_DEVICE void delay() {
  constexpr uint64_t kLongest = 20000;
  const uint64_t now = weft::clock_ns();
  uint64_t mix = (now ^ uint64_t(blockIdx.x) << 40 ^ uint64_t(threadIdx.x / 32) << 52) * 0x9e3779b97f4a7c15u;
  mix = (mix ^ mix >> 29) * 0xbf58476d1ce4e5b9u;
  if (mix >> 63 == 0) return;
  const uint64_t until = now + (mix >> 20) % kLongest;
  while (weft::clock_ns() < until) weft::pause();
}

/// Peers whose flags come late after the data, and whose data is read late after the flags.
struct Delayed {
  const weft::Peers& peers;

  WEFT_DEVICE bool wait(const weft::Signal& signal, int i = 0) const {
    const bool go_on = peers.wait(signal, i);
    delay();
    return go_on;
  }
  WEFT_DEVICE void signal(const weft::Signal& signal, int i = 0) const {
    delay();
    peers.signal(signal, i);
  }
  WEFT_DEVICE bool barrier() const {
    delay();
    const bool go_on = peers.barrier();
    delay();
    return go_on;
  }
};
WEFT_DEVICE Delayed delayed(const weft::Peers& peers) { return {peers}; }

}  // namespace weft_test
