// One line at a time: a window becomes tile + 2 rows of three, each of them tile + 2 points.
#include "backend/winograd_filters.h"

namespace weftc {

/// G times a line of three: with tiles of 2 at the points 0, 1, -1 and infinity, with 4 at 2 and -2 too.
static void line_points(const double* g, int64_t tile, double* out) {
  const double even = g[0] + g[2];
  if (tile == 2) {
    out[0] = g[0], out[1] = (even + g[1]) / 2, out[2] = (even - g[1]) / 2, out[3] = g[2];
    return;
  }
  const double wide = g[0] + 4 * g[2];
  out[0] = g[0] / 4;
  out[1] = -(even + g[1]) / 6, out[2] = -(even - g[1]) / 6;
  out[3] = (wide + 2 * g[1]) / 24, out[4] = (wide - 2 * g[1]) / 24;
  out[5] = g[2];
}

void filter_points(const float* window, int64_t tile, float* points) {
  constexpr int64_t kMostPoints = 6;
  const int64_t side = tile + 2;
  double rows[kMostPoints][3], line[kMostPoints];
  for (int64_t x = 0; x < 3; ++x) {
    const double column[] = {window[x], window[3 + x], window[6 + x]};
    line_points(column, tile, line);
    for (int64_t i = 0; i < side; ++i) rows[i][x] = line[i];
  }
  for (int64_t i = 0; i < side; ++i) {
    line_points(rows[i], tile, line);
    for (int64_t j = 0; j < side; ++j) *points++ = static_cast<float>(line[j]);
  }
}

}  // namespace weftc
