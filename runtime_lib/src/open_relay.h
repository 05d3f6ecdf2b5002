// How a rank of a job on several machines comes to its relay.
#pragma once
#include <memory>
#include <string>

#include "agreement.h"
#include "launch.h"
#include "relay.h"
#include "world.h"

namespace weft {

/// What all ranks of a job must agree on, and how they name themselves in messages.
struct Job {
  const char* program;
  Agreement agreement;
  double timeout;
};

/// True if the ranks of one machine use the relay as well, where a launcher started them.
extern const bool kRelayAlways;
/// Joins the ranks of `world`, a copy that only this process has; `root` is what --root says, or empty. Each target's
/// library defines it. Throws Failure where ranks do not come in time (timed out), or are none of this program's
/// (environment).
std::unique_ptr<Relay> open_relay(const Job& job, const World& world, const Launched& launched,
                                  const std::string& root);

}  // namespace weft
