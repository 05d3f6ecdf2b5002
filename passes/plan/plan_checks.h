// Checks the promise of each planning step right after it, by cheap conditions. prove_plan shows whether the finished
// Plan is right for all ranks.
#pragma once
#include <string>
#include <vector>

#include "ir/plan.h"

namespace weftc {

/// Operands fit their kernels, every transfer is sent and received once, ports have buffers.
std::vector<std::string> check_steps(const Plan& plan);
/// Kernels read and write buffers in the storage that the buffers have.
std::vector<std::string> check_kernels(const Plan& plan);
/// Every state that the model reads is in place or copied by one step, not both.
std::vector<std::string> check_states(const Plan& plan);
/// Weights follow one another in their segments, and steps name weights that exist.
std::vector<std::string> check_weights(const Plan& plan);
/// Streams exist, and every signal that a step waits for is raised by a step.
std::vector<std::string> check_order(const Plan& plan);
/// All memory that a program's steps touch lies inside the memory of the program.
std::vector<std::string> check_positions(const Plan& plan);

}  // namespace weftc
