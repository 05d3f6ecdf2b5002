// Axes of time in pages.
#pragma once
#include <vector>

#include "backend/render.h"

namespace weftc {

/// Marks at 1, 2 or 5 times a power of ten, about ten of them: x in percent, label, and class "always", "half" or
/// "full" for how much room they need.
std::vector<Params> time_axis(double seconds);

}  // namespace weftc
