// Ranks on several machines: each has a copy of the segment of its own, and a relay keeps the copies alike.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "root.h"
#include "world.h"

namespace weft {

/// What a rank sends to rank 0, as one piece.
struct Delivery {
  int from;
  std::vector<char> bytes;
};

struct Relay {
  virtual ~Relay() = default;
  /// World::meet, with the figures of every rank's slot.
  virtual bool meet(double timeout) = 0;
  virtual void tell_failure(int rank, int code, const std::string& text) = 0;
  /// This rank has left a note.
  virtual void tell_note(uint64_t key, const char* bytes) = 0;
  /// To rank 0, which has it behind the next meeting.
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

/// What all ranks of a job must agree on, and how they name themselves in messages.
struct Job {
  const char* program;
  uint64_t digest;  // of what makes two programs work together
  double timeout;
};

/// Whether the ranks of one machine meet by the relay as well, where a launcher started them.
extern const bool kRelayAlways;
/// Joins the ranks of `world`, a copy that only this process has; `root` is what --root says, or empty. Each target's
/// library defines it. Throws Failure where ranks do not come in time (timed out), or are none of this program's
/// (environment).
std::unique_ptr<Relay> open_relay(const Job& job, const World& world, const Launched& launched,
                                  const std::string& root);

}  // namespace weft
