// Opens the relay of a rank of a job on several machines.
#pragma once
#include <memory>
#include <string>

#include "agreement.h"
#include "launch.h"
#include "relay.h"
#include "world.h"

namespace weft {

/// The agreement of all ranks of a job, and the program's name in messages.
struct Job {
  const char* program;
  Agreement agreement;
  double timeout;
};

/// Whether ranks on one machine use the relay too if a launcher started them.
extern const bool kRelayAlways;
/// Joins the ranks of `world`, a copy that only this process has; `root` is what --root says, or empty. Each target's
/// library defines it. Throws Failure if ranks do not arrive in time (timed out), or belong to another program
/// (environment).
std::unique_ptr<Relay> open_relay(const Job& job, const World& world, const Launched& launched,
                                  const std::string& root);

}  // namespace weft
