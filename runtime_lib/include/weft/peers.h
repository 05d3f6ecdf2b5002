// The peer table of cuda programs: the addresses at which a kernel reaches the windows of the other ranks of one group.
// Passed to kernels by value. Its waits are defined in weft/device.h.
#pragma once
#include "weft/device_macros.h"
#include "weft/index_range.h"
#include "weft/types.h"

namespace weft {

inline constexpr int kMaxPeers = 32;
/// Blocks of a kernel that waits for peers: all must be resident.
inline constexpr int kMaxPeerBlocks = 32;

/// Values of Fault::element for waits that are not for a signal: for the peers at a barrier, for the other blocks of
/// the kernel.
inline constexpr int32_t kAtBarrier = -1, kOfBlocks = -2;

/// In host memory: the first wait of a rank that ran out of time, or its first count over the bound, written by a
/// kernel. `leave` asks all waits to end.
struct Fault {
  uint32_t claimed, set, leave;
  int32_t step, element, peer;  // peer: the rank awaited; element: kAtBarrier, kOfBlocks or that of a signal
  int32_t name;                 // of a count or of indices that were checked: its number in the program; -1: a wait
  int64_t count, bound;         // or an index and the extent of its dimension
};

/// The indices that a node of the model looks up, for its kernel to check. Passed by value.
struct IndexCheck {
  Fault* fault;
  int name;  // number of the node among those that are checked

  /// An index outside of the dimension fails the request at the end of the iteration. Negative indices count from the
  /// end.
  WEFT_DEVICE void demand(const IndexRange& range, int64_t extent) const;
  /// The same, but negative indices are outside.
  WEFT_DEVICE void demand_from_front(const IndexRange& range, int64_t extent) const;
  WEFT_DEVICE void demand_within(const IndexRange& range, int64_t first, int64_t extent) const;
};

struct Peers {
  int index, size;           // my index in the group, ranks in it
  int rank, world;           // my number in the world, ranks in it
  int step;                  // the step that waits, as faults name it
  int barrier_slot;          // flags of barrier() on this stream: one a block
  int ranks[kMaxPeers];      // by index in the group: numbers in the world
  char* windows[kMaxPeers];  // by index in the group
  uint32_t* inbox;           // flags in my window: [slot][rank in the world that signalled it]
  int64_t flags;             // offset in a window of its inbox
  const uint32_t* epoch;     // iterations started, in device memory, so that a captured graph can be replayed
  uint32_t* barriers;        // [block][rank in the world]: barriers that this rank has entered with it on this stream
  uint32_t* block_words;     // of this stream's kernels: blocks at the barrier, barriers that are over
  Fault* fault;
  uint64_t timeout_ns;

  template <class T>
  WEFT_DEVICE T* at(int peer, Window<T> buffer) const {
    return reinterpret_cast<T*>(windows[peer] + buffer.offset);
  }
  /// The whole block waits until every rank of the group has signalled element i in this iteration. For a signal
  /// between streams of one rank, it waits for this rank. False: leave the kernel.
  WEFT_DEVICE bool wait(const Signal& signal, int i = 0) const;
  /// Signals element i: earlier writes of the calling block are visible to those who wait for it. One block of a kernel
  /// calls it.
  WEFT_DEVICE void signal(const Signal& signal, int i = 0) const;
  /// Waits until all blocks of this kernel have reached the barrier; their earlier writes are then visible. False:
  /// leave the kernel.
  WEFT_DEVICE bool block_barrier() const;
  /// Waits until the same block of every rank has reached the barrier; their earlier writes are then visible. False:
  /// leave the kernel.
  WEFT_DEVICE bool barrier() const;

  /// The flag that this rank signals in the window of a peer.
  WEFT_DEVICE uint32_t* flag(int peer, int slot) const {
    return reinterpret_cast<uint32_t*>(windows[peer] + flags) + int64_t{slot} * world + rank;
  }
  /// Waits until a word that `peer` (in the world) counts up has reached `value`. False: leave the kernel.
  WEFT_DEVICE bool poll(const uint32_t* word, uint32_t value, int peer, int element, uint64_t limit_ns) const;
  WEFT_DEVICE bool poll_flag(int slot, uint32_t value, int from, int element) const;
  /// The range of peers whose flags a signal waits for.
  WEFT_DEVICE int first(const Signal& signal) const { return signal.in_kernel ? index : 0; }
  WEFT_DEVICE int end(const Signal& signal) const { return signal.in_kernel ? index + 1 : size; }
};

}  // namespace weft
