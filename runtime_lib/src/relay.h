// Ranks on several machines: each has a copy of the segment of its own, and a relay keeps the copies alike.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// What a rank sends to rank 0, as one piece.
struct Delivery {
  int from;
  std::vector<char> bytes;
};

struct Relay {
  virtual ~Relay() = default;
  /// World::barrier, with the figures of every rank's slot.
  virtual bool barrier(double timeout) = 0;
  virtual void tell_failure(int rank, int code, const std::string& text) = 0;
  /// This rank has left a note.
  virtual void tell_note(uint64_t key, const char* bytes) = 0;
  /// To rank 0, which has it behind the next barrier.
  virtual void deliver(const std::vector<char>& bytes) = 0;
  /// On rank 0: what has come since it asked last.
  virtual std::vector<Delivery> take_deliveries() = 0;
  /// What this machine's clock (now_ns) lacks of rank 0's.
  virtual int64_t clock_offset() const = 0;
  /// The place of this rank among those of its machine.
  virtual int local_rank() const = 0;
  /// All is well and done: a connection that ends is no failure from here on.
  virtual void close() = 0;
};

}  // namespace weft
