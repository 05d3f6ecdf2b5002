// What `explain` says of constants that several kernels read: stored once for all of them, or why more than once.
#pragma once
#include <string>
#include <vector>

#include "ir/plan.h"

namespace weftc {

/// One line for each constant that kernels read with other slices or in other packings, or look up in as packed.
std::vector<std::string> stored_weights_remarks(const Plan& plan);

}  // namespace weftc
