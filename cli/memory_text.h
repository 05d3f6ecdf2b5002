// The part of `explain` about memory: each rank's amount, and the buffers that fill it at its peak.
#pragma once
#include <string>

#include "ir/plan.h"

namespace weftc {

/// The bytes of one rank's slices of all weights.
int64_t weight_bytes(const Plan& plan);

/// For each program the memory of its ranks, and for each kind of memory the ten largest buffers at its peak.
std::string memory_text(const Plan& plan);
/// The same as JSON: a list with an object for each program.
std::string memory_json(const Plan& plan);

}  // namespace weftc
