// The time of a convolution on one core of the host, by its strategy and its shape. Strategies are chosen by it, and
// predictions use it.
#pragma once
#include <optional>

#include "ir/kernel/window_geometry.h"
#include "ir/strategy.h"
#include "ir/target.h"

namespace weftc {

/// The time to transpose an element of an image or of filters.
inline constexpr double kSecondsTransposed = 0.5e-9;

/// Seconds of one launch of a kernel whose body has a convolution, with its operands in a near cache. Nothing for
/// devices, and for all but strategies of convolutions of 32-bit floats.
std::optional<double> convolution_seconds(const Strategy& strategy, const KernelBody& body, const Target& target);

}  // namespace weftc
