// The network between ranks of a host program that share no memory. The only implementation, MPI (mpi/), is compiled
// into programs of `--transport mpi`.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "relay.h"
#include "world.h"

namespace weft {

/// Bytes for a rank, or room for its bytes. They must not move until the traffic is over.
struct Parcel {
  int rank;
  char* bytes;
  int64_t size;
};

/// A relay that also transfers data. All calls may come from any thread.
struct Network : Relay {
  /// Parcels in flight.
  struct Traffic {
    virtual ~Traffic() = default;
    /// Whether all are sent and received; never waits. Throws (environment) if a rank cannot be reached.
    virtual bool is_done() = 0;
    /// The ranks with pending parcels, as text.
    virtual std::string awaited() const = 0;
  };
  /// Between two ranks, parcels of equal lane and tag arrive in the order in which they were sent. There is one lane
  /// per stream, and one more.
  virtual std::unique_ptr<Traffic> start(int lane, int tag, std::span<const Parcel> out,
                                         std::span<const Parcel> in) = 0;
  /// Stores a word of this rank also in the other rank's copy of the segment, and wakes threads that wait for it there.
  virtual void post(int to, const Word& word, uint32_t value) = 0;
  /// The ranks whose parcels are in flight, as text; empty: none.
  virtual std::string awaited() { return ""; }
  /// Ends this process and, through the launcher, all others.
  [[noreturn]] virtual void abort(int code) = 0;
};

}  // namespace weft
