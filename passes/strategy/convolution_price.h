// What a convolution takes on one core of the host, by its strategy and its shape: strategies are chosen by it, and
// predictions use it.
#pragma once
#include <optional>

#include "ir/kernel/window_geometry.h"
#include "ir/strategy.h"
#include "ir/target.h"

namespace weftc {

/// The time to bring an element of an image or of filters to another place.
inline constexpr double kSecondsTransposed = 0.5e-9;

/// Seconds of one launch of a kernel whose body has a convolution, with its operands in a near cache; nothing for other
/// bodies, strategies and types than those of convolutions of 32-bit floats, and for devices.
std::optional<double> convolution_seconds(const Strategy& strategy, const KernelBody& body, const Target& target);

}  // namespace weftc
