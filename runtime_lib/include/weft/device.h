// Functions that emitted device kernels call: reductions over blocks and warps, waits for peers, and those of the
// included headers.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "weft/device_convolution.h"
#include "weft/grid.h"
#include "weft/math.h"
#include "weft/peers.h"
#include "weft/random.h"
#include "weft/trigonometry.h"

namespace weft {

// Every thread passes its value and gets the result; the same bits on all threads. A block has a multiple of 32
// threads, at most 1024. T is float, double, or an integer of 32 or 64 bits.

namespace detail {

inline constexpr int kWarp = 32;

struct Add {
  template <class T>
  WEFT_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};
struct Multiply {
  template <class T>
  WEFT_DEVICE T operator()(T a, T b) const {
    return a * b;
  }
};
struct Maximum {
  template <class T>
  WEFT_DEVICE T operator()(T a, T b) const {
    return maximum(a, b);
  }
};
struct Minimum {
  template <class T>
  WEFT_DEVICE T operator()(T a, T b) const {
    return minimum(a, b);
  }
};

/// Lanes that differ in one bit exchange their values. Both combine the same two values, so they agree.
template <class Combine, class T>
WEFT_DEVICE T warp_reduce(T value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) value = Combine()(value, lane_across(value, distance));
  return value;
}

template <class Combine, class T>
WEFT_DEVICE T block_reduce(T value) {
  T* const of_warps = shared<T, kWarp, -1>();
  value = warp_reduce<Combine>(value);
  const int warps = int(blockDim.x) / kWarp;
  if (warps == 1) return value;
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  T result = of_warps[0];
  for (int w = 1; w < warps; ++w) result = Combine()(result, of_warps[w]);
  __syncthreads();  // so that the next reduction may write
  return result;
}

}  // namespace detail

template <class T>
WEFT_DEVICE T warp_sum(T value) {
  return detail::warp_reduce<detail::Add>(value);
}
template <class T>
WEFT_DEVICE T warp_prod(T value) {
  return detail::warp_reduce<detail::Multiply>(value);
}
/// NaN wins.
template <class T>
WEFT_DEVICE T warp_max(T value) {
  return detail::warp_reduce<detail::Maximum>(value);
}
template <class T>
WEFT_DEVICE T warp_min(T value) {
  return detail::warp_reduce<detail::Minimum>(value);
}
template <class T>
WEFT_DEVICE T block_sum(T value) {
  return detail::block_reduce<detail::Add>(value);
}
template <class T>
WEFT_DEVICE T block_prod(T value) {
  return detail::block_reduce<detail::Multiply>(value);
}
template <class T>
WEFT_DEVICE T block_max(T value) {
  return detail::block_reduce<detail::Maximum>(value);
}
template <class T>
WEFT_DEVICE T block_min(T value) {
  return detail::block_reduce<detail::Minimum>(value);
}

/// An element and where it stands.
template <class T>
struct Best {
  T value;
  int64_t index;
};

namespace detail {

/// Among equal elements, the one with the smallest index is better; with `last`, the one with the largest.
template <bool largest, bool last, class T>
WEFT_DEVICE Best<T> better(Best<T> a, Best<T> b) {
  const bool wins = largest ? b.value > a.value : b.value < a.value;
  const bool ties = b.value == a.value && (last ? b.index > a.index : b.index < a.index);
  return wins || ties ? b : a;
}

template <bool largest, bool last, class T>
WEFT_DEVICE Best<T> warp_better(Best<T> mine) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const Best<T> other = {lane_across(mine.value, distance), lane_across(mine.index, distance)};
    mine = better<largest, last>(mine, other);
  }
  return mine;
}

}  // namespace detail

/// The best element of a warp or block; value and index of every thread become the best one's.
template <bool largest, bool last, class T>
WEFT_DEVICE Best<T> warp_best(T& value, int64_t& index) {
  const Best<T> best = detail::warp_better<largest, last>(Best<T>{value, index});
  value = best.value, index = best.index;
  return best;
}
template <bool largest, bool last, class T>
WEFT_DEVICE Best<T> block_best(T& value, int64_t& index) {
  Best<T>* const of_warps = shared<Best<T>, detail::kWarp, -2>();
  Best<T> best = warp_best<largest, last>(value, index);
  const int warps = int(blockDim.x) / detail::kWarp;
  if (threadIdx.x % detail::kWarp == 0) of_warps[threadIdx.x / detail::kWarp] = best;
  __syncthreads();
  for (int w = 0; w < warps; ++w) best = detail::better<largest, last>(best, of_warps[w]);
  __syncthreads();
  value = best.value, index = best.index;
  return best;
}

/// Only the first fault is reported.
WEFT_DEVICE void IndexCheck::demand_within(const IndexRange& range, int64_t first, int64_t extent) const {
  if (range.is_within(first, extent) || atomicExch(&fault->claimed, 1u) != 0) return;
  fault->name = name;
  fault->count = range.outside(extent);
  fault->bound = extent;
  store_release(&fault->set, 1u);
}

WEFT_DEVICE void IndexCheck::demand(const IndexRange& range, int64_t extent) const {
  demand_within(range, -extent, extent);
}
WEFT_DEVICE void IndexCheck::demand_from_front(const IndexRange& range, int64_t extent) const {
  demand_within(range, 0, extent);
}

/// Words only grow, and may wrap around. Host memory is slow to read, so it is polled every kLook rounds.
WEFT_DEVICE bool Peers::poll(const uint32_t* word, uint32_t value, int peer, int element, uint64_t limit_ns) const {
  constexpr int kLook = 256;
  const uint64_t deadline = clock_ns() + limit_ns;
  for (int turn = 1; int32_t(load_acquire(word) - value) < 0; ++turn) {
    pause();
    if (turn % kLook != 0) continue;
    if (load_acquire(&fault->leave) != 0) return false;
    if (clock_ns() < deadline) continue;
    if (atomicExch(&fault->claimed, 1u) != 0) return false;  // another wait was first
    fault->step = step;
    fault->element = element;
    fault->peer = peer;
    fault->name = -1;
    store_release(&fault->leave, 1u);
    store_release(&fault->set, 1u);
    return false;
  }
  return true;
}

WEFT_DEVICE bool Peers::poll_flag(int slot, uint32_t value, int from, int element) const {
  return poll(inbox + slot * world + ranks[from], value, ranks[from], element, timeout_ns);
}

/// Each thread waits for some peers; the block leaves together.
WEFT_DEVICE bool Peers::wait(const Signal& signal, int i) const {
  bool late = false;
  for (int p = first(signal) + int(threadIdx.x); p < end(signal); p += int(blockDim.x))
    late |= !poll_flag(signal.slot + i, *epoch, p, i);
  return __syncthreads_or(late) == 0;
}

/// The fence and the barrier order the writes of all threads of the block before the releases.
WEFT_DEVICE void Peers::signal(const Signal& signal, int i) const {
  __threadfence_system();
  __syncthreads();
  for (int p = first(signal) + int(threadIdx.x); p < end(signal); p += int(blockDim.x))
    store_release(flag(p, signal.slot + i), *epoch);
}

/// The last block to arrive ends the barrier and resets the words for the next one, which may be another kernel's. A
/// missing block waits for a peer. That wait should time out first, since it knows what is missing.
WEFT_DEVICE bool Peers::block_barrier() const {
  __syncthreads();
  bool late = false;
  if (threadIdx.x == 0) {
    uint32_t *const come = block_words, *const over = block_words + 1;
    const uint32_t next = *over + 1;
    if (add_acquire_release(come, 1u) + 1 == gridDim.x) {
      *come = 0;
      store_release(over, next);
    } else {
      late = !poll(over, next, rank, kOfBlocks, 2 * timeout_ns);
    }
  }
  return __syncthreads_or(late) == 0;
}

/// For each block number, both ranks of a pair count the barriers that they have entered together on a stream. Thus no
/// group needs slots of its own.
WEFT_DEVICE bool Peers::barrier() const {
  const int block = int(blockIdx.x), slot = barrier_slot + block;
  uint32_t* const counts = barriers + block * world;
  __threadfence_system();
  __syncthreads();
  bool late = false;
  for (int p = int(threadIdx.x); p < size; p += int(blockDim.x)) store_release(flag(p, slot), ++counts[ranks[p]]);
  for (int p = int(threadIdx.x); p < size; p += int(blockDim.x))
    late |= !poll_flag(slot, counts[ranks[p]], p, kAtBarrier);
  return __syncthreads_or(late) == 0;
}

}  // namespace weft
