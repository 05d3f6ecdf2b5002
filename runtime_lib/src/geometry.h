// The geometry of exchanges at run time: the compiler has written boxes of strides (weft/types.h), and each
// rank pair takes its part of them. The collectives of both targets use it.
#pragma once
#include <vector>

#include "weft/types.h"

namespace weft {

/// The sum over all axes a of (coordinate of member `index` on axis a) * strides[a]: the offset of that member's part
/// in elements.
int64_t offset_of(const Group& group, int index, const int64_t (&strides)[kMaxGroupAxes]);
/// The box of an exchange between `me` and a peer, cut to the elements that both sides really hold: the last
/// slice of a ragged dimension is shorter.
Exchange clipped(const Exchange& e, int me, int peer);
/// A side of an exchange.
enum class Side { Src, Dst };
/// The exchange with one side packed: its elements lie there without gaps, in the order of the box.
Exchange packed(Exchange e, Side side);
/// How many elements the box has.
int64_t count_of(const Dim (&dims)[kMaxDims]);
/// An exchange of `count` neighbouring elements.
Exchange line_of(int64_t count);
/// The ranks of the group that `rank` is in, by their index.
std::vector<int> members_of(const Group& group, int rank);

}  // namespace weft
