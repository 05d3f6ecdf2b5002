// Filters of 3 x 3 as the points of Winograd's minimal filtering (Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks", 2015): G g G^T. The kernels of weft/winograd.h multiply them with the points of an image.
#pragma once
#include <cstdint>

namespace weftc {

/// The (tile + 2) x (tile + 2) points of a window of 3 x 3 contiguous elements, computed in double precision. `tile`:
/// number of outputs along a side computed at a time, 2 or 4.
void filter_points(const float* window, int64_t tile, float* points);

}  // namespace weftc
