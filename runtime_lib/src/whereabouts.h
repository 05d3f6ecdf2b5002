// The positions of ranks, for messages about a rank that others wait for.
#pragma once
#include <string>

#include "world.h"

namespace weft {

/// "in h [2] (Relu h; block c_forward, micro-batch 2)", "after h [2] (...)", "at the end of the iteration" or "at its
/// start": the position of the rank's stream that waits for nothing, or else for another rank. Streams that wait for
/// streams of their own rank do not count.
std::string whereabouts(const World& world, int rank);

/// Whether a signal has stopped the rank's process.
bool is_stopped(const World& world, int rank);

/// The rank that delays the others, and its position: one whose process is stopped, or else one with a stream that
/// waits for nothing. "" if none is known.
std::string who_holds_up(const World& world);

/// A line for each stream of each rank, those that delay others first. `program` has the streams' names.
std::string describe_streams(const World& world, const Program& program);

}  // namespace weft
