// Differences of starts: for each two blocks, how much later one starts than the other at least.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weftc {

/// The closure of constraints start[b] - start[a] >= d, as longest paths. A constraint is added in O(n * n), and only
/// if it is not implied already.
class Distances {
 public:
  /// Without a constraint, no two of the starts are further apart than `most`.
  Distances(size_t count, int64_t most) : count_(count), at_(count * count, -most) {
    for (size_t i = 0; i < count; ++i) at_[i * count + i] = 0;
  }

  /// The least start[b] - start[a], and the largest.
  int64_t least(size_t a, size_t b) const { return at_[a * count_ + b]; }
  int64_t most(size_t a, size_t b) const { return -at_[b * count_ + a]; }

  /// Requires start[b] - start[a] >= distance; false on a contradiction, after which the object must not be used.
  bool add(size_t a, size_t b, int64_t distance) {
    if (distance <= least(a, b)) return true;
    if (distance > most(a, b)) return false;
    const int64_t* const from_b = &at_[b * count_];
    for (size_t i = 0; i < count_; ++i) {
      int64_t* const from_i = &at_[i * count_];
      const int64_t through = from_i[a] + distance;
      if (through <= from_i[b]) continue;
      for (size_t j = 0; j < count_; ++j) from_i[j] = from_i[j] < through + from_b[j] ? through + from_b[j] : from_i[j];
      steps_ += count_;
    }
    return true;
  }

  /// The earliest starts, the first of them at 0.
  std::vector<int64_t> earliest() const {
    std::vector<int64_t> starts(count_, 0);
    for (size_t i = 0; i < count_; ++i)
      for (size_t j = 0; j < count_; ++j) starts[j] = starts[j] < least(i, j) ? least(i, j) : starts[j];
    return starts;
  }

  /// How many entries have been looked at to be changed: a measure of work that is the same on every machine.
  uint64_t steps() const { return steps_; }

 private:
  size_t count_;
  std::vector<int64_t> at_;
  uint64_t steps_ = 0;
};

}  // namespace weftc
