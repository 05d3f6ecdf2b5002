// Arithmetic on exchange boxes (geometry.h).
#include "geometry.h"

namespace weft {

int64_t offset_of(const Group& group, int index, const int64_t (&strides)[kMaxGroupAxes]) {
  int64_t sum = 0;
  for (int a = 0; a < group.naxes; ++a) sum += group.coordinate(index, a) * strides[a];
  return sum;
}

Exchange clipped(const Exchange& e, int me, int peer) {
  Exchange cut = e;
  if (e.by_me.dim >= 0) cut.dims[e.by_me.dim].extent = e.by_me.valid(me);
  if (e.by_peer.dim >= 0) cut.dims[e.by_peer.dim].extent = e.by_peer.valid(peer);
  return cut;
}

Exchange packed(Exchange e, Side side) {
  int64_t stride = 1;
  for (int d = kMaxDims - 1; d >= 0; --d) {
    (side == Side::Src ? e.dims[d].src_stride : e.dims[d].dst_stride) = stride;
    stride *= e.dims[d].extent;
  }
  return e;
}

int64_t count_of(const Dim (&dims)[kMaxDims]) {
  int64_t n = 1;
  for (const Dim& d : dims) n *= d.extent;
  return n;
}

Exchange line_of(int64_t count) { return Exchange{.dims = {{count, 1, 1}}}; }

std::vector<int> members_of(const Group& group, int rank) {
  std::vector<int> out;
  for (int p = 0; p < group.size(); ++p) out.push_back(group.peer(rank, p));
  return out;
}

}  // namespace weft
