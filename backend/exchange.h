// The geometry of a plain collective: which elements of a peer's memory go where, from the layouts before and after.
#pragma once
#include <optional>

#include "ir/kernel/digits.h"
#include "ir/plan.h"

namespace weftc {

/// For all i_d < extent_d:  dst[first + sum i_d * dst_d + sum of peer coordinates] = src[...] (weft/types.h).
struct ExchangeBox {
  struct Dim {
    int64_t extent, source, target;
  };
  std::vector<Dim> dims;
  std::vector<int64_t> source_by_me, target_by_peer;  // by axis of the step
  /// Ragged slices: the dim of the box that is clipped by what the peer holds, or this rank.
  struct Clip {
    int dim = -1;
    int64_t extent = 0, block = 0;
  };
  Clip by_peer, by_me;
  /// Elements by which the chunk moves the first one: by time axis of the step's mesh.
  std::vector<std::pair<int, int64_t>> source_by_chunk, target_by_chunk;

  int64_t elements() const;
  /// One run of elements, the same on both sides: a plain count does.
  bool is_identity() const;
};

/// Nothing if the slices do not nest.
std::optional<ExchangeBox> exchange_box(const CollectiveStep& step, size_t place_axes);

}  // namespace weftc
