// Host programs share memory: their ranks are on one machine. An executable that links another relay leaves this file
// in the library.
#include "failure.h"
#include "open_relay.h"

namespace weft {

const bool kRelayAlways = false;

std::unique_ptr<Relay> open_relay(const Job&, const World&, const Launched&, const std::string&) {
  fail(kEnvironment, "the ranks are on several machines: compile with --transport mpi");
}

}  // namespace weft
