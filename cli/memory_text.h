// What `explain` says of memory: how much each rank has, and which buffers fill it where most of it is taken.
#pragma once
#include <string>

#include "ir/plan.h"

namespace weftc {

/// Of one rank's slice of each weight.
int64_t weight_bytes(const Plan& plan);

/// For each program what its ranks have, and for each of their memories the ten largest buffers at its peak.
std::string memory_text(const Plan& plan);
/// The same facts: a list with an object for each program.
std::string memory_json(const Plan& plan);

}  // namespace weftc
