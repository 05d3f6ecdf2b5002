// The first elements of a line in the order of order_key.h, on a device. A warp finds few elements, one in each pass. A
// block finds many: it computes the key of the last one digit by digit.
#pragma once
#include "weft/device.h"
#include "weft/order_key.h"

namespace weft {

namespace detail {

/// The first of the lanes' elements, on all lanes.
template <class Key>
WEFT_DEVICE Ranked<Key> warp_first(Ranked<Key> own) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const Ranked<Key> other{lane_across(own.key, distance), lane_across(own.index, distance)};
    if (other.is_before(own)) own = other;
  }
  return own;
}

}  // namespace detail

/// Calls put(j, element, index) on one lane of the warp for the first k elements of a line, j = 0, 1 ... k - 1, where
/// load(i) gives element i. k is at most `length`.
template <class T, Extreme kExtreme, class Load, class Put>
WEFT_DEVICE void top_k_by_warp(int64_t length, int64_t k, const Load& load, const Put& put) {
  using Key = OrderKey<T>;
  Ranked<Key> last = before_all<Key>();
  for (int64_t j = 0; j < k; ++j) {
    Ranked<Key> best = after_all<Key>(length);
    for (int64_t i = lane(); i < length; i += detail::kWarp) {
      const Ranked<Key> own{order_key<kExtreme>(T(load(i))), i};
      if (last.is_before(own) && own.is_before(best)) best = own;
    }
    last = detail::warp_first(best);
    if (lane() == 0) put(j, T(load(last.index)), last.index);
  }
}

namespace detail {

/// The most entries of one round of a block. They are those above the round's least key, in any order.
inline constexpr int kRound = 768;

template <class Key>
struct RoundMemory {
  uint32_t counts[256];
  uint32_t of_warps[kWarp];
  uint32_t above;      // entries below
  int64_t last_index;  // of the last element of the round
  Ranked<Key> entries[kRound];
};

/// A key as an unsigned number of the same order, for the extraction of digits.
template <class Key>
WEFT_DEVICE std::make_unsigned_t<Key> digits_of(Key key) {
  return std::make_unsigned_t<Key>(key) ^ (std::make_unsigned_t<Key>(1) << (8 * sizeof(Key) - 1));
}

/// The digit in which the wanted-th greatest number is counted, from the counts of all digits; `wanted` becomes its
/// place among the numbers with that digit. Each warp computes it: a lane has eight digits, the greatest first.
WEFT_DEVICE int digit_of(const uint32_t* counts, uint32_t& wanted) {
  uint32_t own = 0;
  for (int d = 0; d < 8; ++d) own += counts[255 - 8 * lane() - d];
  uint32_t up_to = own;
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const uint32_t other = lane_before(up_to, distance);
    if (lane() >= distance) up_to += other;
  }
  const int owner = __ffs(int(__ballot_sync(0xffffffffu, up_to >= wanted))) - 1;
  uint32_t left = wanted - __shfl_sync(0xffffffffu, up_to - own, owner);
  int digit = 255 - 8 * owner;
  for (; left > counts[digit]; --digit) left -= counts[digit];
  wanted = left;
  return digit;
}

/// The key of the count-th element after `last`. `ties`: how many with that key are among the first `count`.
template <class T, Extreme kExtreme, class Load>
WEFT_DEVICE OrderKey<T> least_key(int64_t length, uint32_t count, const Load& load, Ranked<OrderKey<T>> last,
                                  uint32_t* counts, uint32_t& ties) {
  using Key = OrderKey<T>;
  using Digits = std::make_unsigned_t<Key>;
  Digits found = 0;
  ties = count;
  for (int shift = 8 * int(sizeof(Key)) - 8; shift >= 0; shift -= 8) {
    for (int d = int(threadIdx.x); d < 256; d += int(blockDim.x)) counts[d] = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < length; i += blockDim.x) {
      const Ranked<Key> own{order_key<kExtreme>(T(load(i))), i};
      const Digits digits = digits_of(own.key);
      const bool agrees = shift + 8 == int(8 * sizeof(Key)) || ((digits ^ found) >> shift >> 8) == 0;
      if (agrees && last.is_before(own)) atomicAdd(&counts[int(digits >> shift) & 255], 1u);
    }
    __syncthreads();
    found |= Digits(digit_of(counts, ties)) << shift;
    __syncthreads();  // before the counts are set to 0 again
  }
  return Key(digits_of(Key(found)));
}

/// Puts the elements with the key `least` from the place `first` on, by their indices, until there are `ties`.
template <class T, Extreme kExtreme, class Load, class Put>
WEFT_DEVICE void put_ties(int64_t length, int64_t first, uint32_t ties, const Load& load, const Put& put,
                          OrderKey<T> least, Ranked<OrderKey<T>> last, RoundMemory<OrderKey<T>>& memory) {
  const int warp = int(threadIdx.x) / kWarp, warps = int(blockDim.x) / kWarp;
  uint32_t before = 0;
  for (int64_t from = 0; from < length && before < ties; from += blockDim.x) {
    const int64_t i = from + threadIdx.x;
    const bool is_tie = i < length && order_key<kExtreme>(T(load(i))) == least && last.is_before({least, i});
    const uint32_t of_warp = __ballot_sync(0xffffffffu, is_tie);
    if (lane() == 0) memory.of_warps[warp] = uint32_t(__popc(of_warp));
    __syncthreads();
    uint32_t place = before + uint32_t(__popc(of_warp & ((1u << lane()) - 1)));
    for (int w = 0; w < warps; ++w) {
      if (w < warp) place += memory.of_warps[w];
      before += memory.of_warps[w];
    }
    if (is_tie && place < ties) put(first + place, T(load(i)), i);
    if (is_tie && place + 1 == ties) memory.last_index = i;
    __syncthreads();  // before the next counts, and for the last index
  }
}

}  // namespace detail

/// The same by all threads of a block, which take the elements in rounds. Elements above the least key of a round are
/// placed by their order among each other, elements with that key by their index.
template <class T, Extreme kExtreme, class Load, class Put>
WEFT_DEVICE void top_k_by_block(int64_t length, int64_t k, const Load& load, const Put& put) {
  using Key = OrderKey<T>;
  detail::RoundMemory<Key>& memory = *shared<detail::RoundMemory<Key>, 1, -7>();
  Ranked<Key> last = before_all<Key>();
  for (int64_t first = 0; first < k; first += detail::kRound) {
    const uint32_t count = k - first < detail::kRound ? uint32_t(k - first) : uint32_t(detail::kRound);
    uint32_t ties = 0;
    const Key least = detail::least_key<T, kExtreme>(length, count, load, last, memory.counts, ties);
    if (threadIdx.x == 0) memory.above = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < length; i += blockDim.x) {
      const Ranked<Key> own{order_key<kExtreme>(T(load(i))), i};
      if (own.key > least && last.is_before(own)) memory.entries[atomicAdd(&memory.above, 1u)] = own;
    }
    __syncthreads();
    for (uint32_t e = threadIdx.x; e < count - ties; e += blockDim.x) {
      int64_t rank = 0;
      for (uint32_t other = 0; other < count - ties; ++other)
        rank += memory.entries[other].is_before(memory.entries[e]);
      put(first + rank, T(load(memory.entries[e].index)), memory.entries[e].index);
    }
    detail::put_ties<T, kExtreme>(length, first + count - ties, ties, load, put, least, last, memory);
    last = {least, memory.last_index};
    __syncthreads();
  }
}

}  // namespace weft
