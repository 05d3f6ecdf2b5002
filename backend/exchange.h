// The geometry of a plain collective: which elements of a peer's memory go where in this rank's memory. It follows from
// the layouts before and after, and is written into the step as numbers:
//
//   AllGather of [8, 6] over tp of 2 ranks, columns split in blocks of 3:
//     the box has rows 8 (source stride 3, target stride 6) and columns 3 (1, 1),
//     and what comes from peer p lands 3 * p elements further: target_by_peer = {3}
#pragma once
#include <optional>

#include "ir/kernel/digits.h"
#include "ir/plan.h"

namespace weftc {

/// For all i_d < extent_d:  target[first + sum of i_d * target_d] = source[first' + sum of i_d * source_d]. The first
/// elements depend on the coordinates of the two ranks and on the chunk. The runtime's form is weft::Exchange
/// (weft/types.h).
struct ExchangeBox {
  static constexpr size_t kMostDims = 6;  // weft::kMaxDims

  /// A dimension of the box: its extent, and its strides in elements on both sides. With run-time lengths the extent
  /// has their bounds; `lengths` are these dimensions of the tensor. A request that is shorter in them exchanges less.
  struct Dim {
    int64_t extent, source, target;
    std::vector<int> lengths = {};
  };
  std::vector<Dim> dims;
  std::vector<int64_t> source_by_me, target_by_peer;  // elements for each step of a coordinate, by axis of the step
  /// A ragged slice, of which the last rank has less: the dimension of the box that ends early, with the whole extent
  /// and the block of a rank. The peer's share limits `by_peer`, this rank's limits `by_me`.
  struct Clip {
    int dim = -1;
    int64_t extent = 0, block = 0;
    int length = -1;  // the dimension of the tensor whose run-time length replaces the extent
  };
  Clip by_peer, by_me;
  /// How far one chunk moves the first element, in elements, by time axis of the step's mesh.
  std::vector<std::pair<int, int64_t>> source_by_chunk, target_by_chunk;

  /// Number of elements that one pair of ranks exchanges.
  int64_t elements() const;
  /// True for one run of elements with the same layout on both sides: the step then passes a plain count.
  bool is_identity() const;
};

/// The box of a collective in a place with `place_axes` axes; further axes of the step's mesh are time. `by_bounds`:
/// the storage of tensors with run-time lengths (Storage). Nothing if the slices of several axes do not nest, so that
/// strides cannot describe them.
std::optional<ExchangeBox> exchange_box(const CollectiveStep& step, size_t place_axes, bool by_bounds = false);

}  // namespace weftc
