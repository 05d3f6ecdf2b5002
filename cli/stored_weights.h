// The remarks of `explain` about constants that several kernels read: why they are stored more than once.
#pragma once
#include <string>
#include <vector>

#include "ir/plan.h"

namespace weftc {

/// One line for each constant that kernels read with different slices or packings, or look up in packed form.
std::vector<std::string> stored_weights_remarks(const Plan& plan);

}  // namespace weftc
