// How ranks of a host program reach each other where they share no memory. One provider, MPI (mpi/), is compiled into
// programs of `--transport mpi`; the others have none.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "relay.h"
#include "world.h"

namespace weft {

/// Bytes for a rank, or room for its bytes. They stay where they are until the traffic is over.
struct Parcel {
  int rank;
  char* bytes;
  int64_t size;
};

/// A relay that moves more than small news. All calls may come from any thread.
struct Network : Relay {
  /// Parcels under way.
  struct Traffic {
    virtual ~Traffic() = default;
    /// True if all have gone and come; never waits. Throws (environment) where a rank cannot be reached.
    virtual bool is_done() = 0;
    /// The ranks whose parcels have neither gone nor come, as text.
    virtual std::string awaited() const = 0;
  };
  /// Between two ranks, parcels of equal lane and tag arrive in the order in which they were sent. Lanes: one a stream,
  /// and one more.
  virtual std::unique_ptr<Traffic> start(int lane, int tag, std::span<const Parcel> out,
                                         std::span<const Parcel> in) = 0;
  /// Stores a word of this rank in the other rank's copy of the segment too, and wakes who waits for it there.
  virtual void post(int to, const Word& word, uint32_t value) = 0;
  /// The ranks whose parcels are under way, as text; empty: none.
  virtual std::string awaited() { return ""; }
  /// Ends this process and, through the launcher, all others.
  [[noreturn]] virtual void abort(int code) = 0;
};

}  // namespace weft
