// The first elements of a line in the order of order_key.h, on the host. For few elements of a short line, each pass of
// vector operations over its keys finds one. Otherwise a single pass keeps the candidates. `load` is passed by value
// and captures values: g++ 12 does not vectorise loops over loads through references to pointers.
#pragma once
#include <algorithm>
#include <cstdint>

#include "weft/order_key.h"
#include "weft/scratch.h"
#include "weft/team.h"

namespace weft {

namespace detail {

inline constexpr int64_t kShortLine = 1024, kFewPasses = 8;

/// Each pass finds the first element after that of the previous pass. One copy, because with a constant k of 1 g++ 12
/// turns conditions into branches, which is five times as slow.
template <class T, Extreme kExtreme, class Load, class Put>
WEFT_ONE_COPY void top_k_by_passes(int32_t length, int64_t k, Load load, const Put& put) {
  using Key = OrderKey<T>;
  Key keys[kShortLine];
#pragma omp simd
  for (int32_t i = 0; i < length; ++i) keys[i] = order_key<kExtreme>(T(load(i)));
  Key last = std::numeric_limits<Key>::max();
  int32_t last_at = -1;
  for (int64_t j = 0; j < k; ++j) {
    Key best = std::numeric_limits<Key>::min();
#pragma omp simd reduction(max : best)
    for (int32_t i = 0; i < length; ++i) {
      const Key left = (keys[i] < last) | ((keys[i] == last) & (i > last_at)) ? keys[i] : best;
      best = left > best ? left : best;
    }
    int32_t at = length;
#pragma omp simd reduction(min : at)
    for (int32_t i = 0; i < length; ++i) {
      const bool is_best = (keys[i] == best) & ((best < last) | (i > last_at));
      const int32_t place = is_best ? i : length;
      at = place < at ? place : at;
    }
    last = best, last_at = at;
    put(j, T(load(at)), int64_t{at});
  }
}

/// The elements of a line that may be among its first k: the first k of all seen so far, and as many others. An element
/// whose key is not above `bound` is not among them, since k others precede it. The compiler predicts this memory
/// (ir/kernel/kernel_scratch.cpp).
template <class Key>
class Candidates {
 public:
  Candidates(int64_t k, int64_t length)
      : k_(k), room_(std::min(length, std::max<int64_t>(2 * k, 128))), entries_(room_ + kBlock) {}

  static constexpr int64_t kBlock = 32;

  /// Adds up to kBlock keys, of elements from `first` on.
  void take(const Key* keys, int64_t first, int64_t count) {
    const bool all = !is_bounded_;
    for (int64_t i = 0; i < count; ++i) {
      entries_[count_] = {keys[i], first + i};
      count_ += all | (keys[i] > bound_);
    }
    if (count_ >= room_) leave_first();
  }
  bool may_take(Key greatest) const { return !is_bounded_ || greatest > bound_; }
  /// The first k in order; all k must have been seen.
  const Ranked<Key>* sorted() {
    leave_first();
    std::sort(entries_.get(), entries_.get() + k_, is_before);
    return entries_.get();
  }

 private:
  static bool is_before(const Ranked<Key>& a, const Ranked<Key>& b) { return a.is_before(b); }
  void leave_first() {
    if (count_ <= k_) return;
    std::nth_element(entries_.get(), entries_.get() + k_ - 1, entries_.get() + count_, is_before);
    count_ = k_, bound_ = entries_[k_ - 1].key, is_bounded_ = true;
  }

  const int64_t k_, room_;
  const Scratch<Ranked<Key>> entries_;
  int64_t count_ = 0;
  bool is_bounded_ = false;
  Key bound_ = {};
};

/// The keys of `count` elements from `first` on; the greatest of them.
template <class T, Extreme kExtreme, class Load>
inline OrderKey<T> keys_of(OrderKey<T>* keys, int64_t first, int64_t count, Load load) {
  OrderKey<T> greatest = std::numeric_limits<OrderKey<T>>::min();
#pragma omp simd reduction(max : greatest)
  for (int64_t i = 0; i < count; ++i) {
    keys[i] = order_key<kExtreme>(T(load(first + i)));
    greatest = keys[i] > greatest ? keys[i] : greatest;
  }
  return greatest;
}

template <class T, Extreme kExtreme, class Load, class Put>
void top_k_by_bound(int64_t length, int64_t k, Load load, const Put& put) {
  using Key = OrderKey<T>;
  constexpr int64_t kBlock = Candidates<Key>::kBlock;
  Candidates<Key> candidates(k, length);
  Key keys[kBlock];
  int64_t first = 0;
  for (; first + kBlock <= length; first += kBlock)
    if (candidates.may_take(keys_of<T, kExtreme>(keys, first, kBlock, load))) candidates.take(keys, first, kBlock);
  keys_of<T, kExtreme>(keys, first, length - first, load);
  candidates.take(keys, first, length - first);
  const Ranked<Key>* const chosen = candidates.sorted();
  for (int64_t j = 0; j < k; ++j) put(j, T(load(chosen[j].index)), chosen[j].index);
}

}  // namespace detail

/// Calls put(j, element, index) for the first k elements of a line, j = 0, 1 ... k - 1, where load(i) gives element i.
/// k is at most `length`.
template <class T, Extreme kExtreme, class Load, class Put>
void top_k(int64_t length, int64_t k, Load load, const Put& put) {
  if (k <= 0) return;
  if (k <= detail::kFewPasses && length <= detail::kShortLine)
    return detail::top_k_by_passes<T, kExtreme>(int32_t(length), k, load, put);
  detail::top_k_by_bound<T, kExtreme>(length, k, load, put);
}

}  // namespace weft
