// The geometry of exchanges, as the collectives of both targets need it.
#pragma once
#include <vector>

#include "weft/types.h"

namespace weft {

/// sum_a coordinate of `index` on axis a * strides[a].
int64_t offset_of(const Group& group, int index, const int64_t (&strides)[kMaxGroupAxes]);
/// The dims of an exchange with a peer, cut to what both sides really hold.
Exchange clipped(const Exchange& e, int me, int peer);
/// The dims of an exchange packed on one side.
enum class Side { Src, Dst };
Exchange packed(Exchange e, Side side);
int64_t count_of(const Dim (&dims)[kMaxDims]);
Exchange line_of(int64_t count);
std::vector<int> members_of(const Group& group, int rank);

}  // namespace weft
