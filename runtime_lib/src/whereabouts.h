// Where ranks are, for messages about one that others wait for.
#pragma once
#include <string>

#include "world.h"

namespace weft {

/// "in h [2] (Relu h; block c_forward, micro-batch 2)", "after h [2] (...)", "at the end of the iteration" or "at its
/// start": of the rank's streams one that waits for nothing, or else for another rank, since what a rank's own streams
/// wait for is where those are.
std::string whereabouts(const World& world, int rank);

/// Whether a signal has stopped the rank's process.
bool is_stopped(const World& world, int rank);

/// The rank that holds up the others, and where it is: one whose process is stopped, or else one with a stream that
/// waits for nothing. "" if none is known.
std::string who_holds_up(const World& world);

/// A line for each stream of each rank, those that hold up others first. `program` has the streams' names.
std::string describe_streams(const World& world, const Program& program);

}  // namespace weft
