// The relay between ranks on several machines. Each rank has its own copy of the segment, and the relay keeps the
// copies alike.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// A message of a rank to rank 0.
struct Delivery {
  int from;
  std::vector<char> bytes;
};

struct Relay {
  virtual ~Relay() = default;
  /// World::barrier, with the figures of every rank's slot.
  virtual bool barrier(double timeout) = 0;
  virtual void tell_failure(int rank, int code, const std::string& text) = 0;
  /// Called when this rank has left a note.
  virtual void tell_note(uint64_t key, const char* bytes) = 0;
  /// Sends to rank 0, which has received it after the next barrier.
  virtual void deliver(const std::vector<char>& bytes) = 0;
  /// On rank 0: deliveries since the last call.
  virtual std::vector<Delivery> take_deliveries() = 0;
  /// Rank 0's clock minus this machine's clock (now_ns).
  virtual int64_t clock_offset() const = 0;
  /// The index of this rank among those of its machine.
  virtual int local_rank() const = 0;
  /// The orderly end: from here on, the end of a connection is not a failure.
  virtual void close() = 0;
};

}  // namespace weft
