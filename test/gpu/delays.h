// Random delays around the flags of emitted kernels: the packer replaces peers by delayed(peers), and puts a delay at
// their begin. Data that is visible too early, or too late, then meets poisoned windows.
#pragma once
#include "weft/device.h"

namespace weft_test {

WEFT_DEVICE uint64_t mixed(uint64_t time) {
  uint64_t mix = (time ^ uint64_t(blockIdx.x) << 40 ^ uint64_t(threadIdx.x / 32) << 52) * 0x9e3779b97f4a7c15u;
  return (mix ^ mix >> 29) * 0xbf58476d1ce4e5b9u;
}

WEFT_DEVICE void idle_until(uint64_t time) {
  while (weft::clock_ns() < time) weft::pause();
}

/// Half of all warps go on at once, the others wait up to 20 us.
WEFT_DEVICE void delay() {
  constexpr uint64_t kLongest = 20000;
  const uint64_t now = weft::clock_ns(), mix = mixed(now);
  if (mix >> 63 == 0) idle_until(now + (mix >> 20) % kLongest);
}

/// One kernel in four takes up to 500 us longer: ranks and streams drift apart.
WEFT_DEVICE void delay_kernel() {
  constexpr uint64_t kLongest = 500000;
  if (blockIdx.x != 0 || threadIdx.x >= 32) return;
  const uint64_t now = weft::clock_ns(), mix = mixed(now);
  if (mix >> 62 == 0) idle_until(now + (mix >> 20) % kLongest);
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
