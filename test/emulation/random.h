// Seeded pseudo-random numbers (xorshift64*), one generator a user.
#pragma once
#include <cstdint>

namespace weft::emulation {

class Random {
 public:
  explicit Random(uint64_t seed) : state_((seed + 1) * 0x9e3779b97f4a7c15ull | 1) { next(), next(); }
  uint64_t next() {
    state_ ^= state_ >> 12, state_ ^= state_ << 25, state_ ^= state_ >> 27;
    return (state_ * 0x2545f4914f6cdd1dull) >> 16;
  }
  uint64_t below(uint64_t n) { return next() % n; }

 private:
  uint64_t state_;
};

/// The numbers 0 .. n-1 once each, in order or shuffled: i -> at(i).
struct Permutation {
  uint64_t n = 1, first = 0, step = 1;
  static Permutation shuffled(uint64_t n, Random& random) {
    Permutation out{n, random.below(n), n > 2 ? 1 + random.below(n - 1) : 1};
    while (out.common_divisor() != 1) out.step = out.step % (n - 1) + 1;
    return out;
  }
  uint64_t at(uint64_t i) const { return (first + i * step) % n; }

 private:
  uint64_t common_divisor() const {
    uint64_t a = n, b = step;
    while (b != 0) {
      const uint64_t rest = a % b;
      a = b, b = rest;
    }
    return a;
  }
};

}  // namespace weft::emulation
