// The peer table of cuda programs: how a kernel reaches the windows of the other ranks of one group. Passed to kernels
// by value. Its waits are defined in weft/device.h.
#pragma once
#include "weft/types.h"

#if defined(__CUDACC__)
#define WEFT_DEVICE __device__ __forceinline__
#else
#define WEFT_DEVICE inline
#endif

namespace weft {

inline constexpr int kMaxPeers = 32;
/// Blocks of a kernel that waits for peers: all must be resident.
inline constexpr int kMaxPeerBlocks = 32;

/// In host memory: the first wait of a rank that ran out of time, or its first count over the bound, written by a
/// kernel. `leave` asks all waits to end.
struct Fault {
  uint32_t claimed, set, leave;
  int32_t step, element, peer;  // peer: the rank awaited; element -1: at a barrier
  int32_t name;                 // of a count: its number in the program; -1: a wait
  int64_t count, bound;
};

struct Peers {
  int index, size;           // my index in the group, ranks in it
  int rank, world;           // my number in the world, ranks in it
  int step;                  // what this is for, as faults name it
  int barrier_slot;          // flags of barrier() on this stream: one a block
  int ranks[kMaxPeers];      // by index in the group: numbers in the world
  char* windows[kMaxPeers];  // by index in the group
  uint32_t* inbox;           // flags in my window: [slot][rank in the world that raised it]
  int64_t flags;             // offset in a window of its inbox
  const uint32_t* epoch;     // iterations started, in device memory, so that a captured graph can be replayed
  uint32_t* barriers;        // [block][rank in the world]: barriers that this rank has entered with it on this stream
  Fault* fault;
  uint64_t timeout_ns;

  template <class T>
  WEFT_DEVICE T* at(int peer, Window<T> buffer) const {
    return reinterpret_cast<T*>(windows[peer] + buffer.offset);
  }
  /// The whole block waits until every rank of the group has raised element i in this iteration. False: leave.
  WEFT_DEVICE bool wait(const Signal& signal, int i = 0) const;
  /// Element i is done: what the calling block wrote before is visible to who waits for it. By one block of a kernel.
  WEFT_DEVICE void signal(const Signal& signal, int i = 0) const;
  /// The same block of every rank has come here, and what they wrote before is visible. False: leave the kernel.
  WEFT_DEVICE bool barrier() const;

  /// The flag that this rank raises in the window of a peer.
  WEFT_DEVICE uint32_t* flag(int peer, int slot) const {
    return reinterpret_cast<uint32_t*>(windows[peer] + flags) + int64_t{slot} * world + rank;
  }
  WEFT_DEVICE bool poll(int slot, uint32_t value, int from, int element) const;
  WEFT_DEVICE bool await_slot(int slot, int element) const;
  WEFT_DEVICE void raise_slot(int slot) const;
};

}  // namespace weft
