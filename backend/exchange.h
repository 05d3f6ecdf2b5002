// The geometry of a plain collective: which elements of a peer's memory go where in this rank's memory. It
// follows from the layouts before and after, and is written into the step as numbers:
//
//   AllGather of [8, 6] over tp of 2 ranks, columns split in blocks of 3:
//     the box has rows 8 (source stride 3, target stride 6) and columns 3 (1, 1),
//     and what comes from peer p lands 3 * p elements further: target_by_peer = {3}
#pragma once
#include <optional>

#include "ir/kernel/digits.h"
#include "ir/plan.h"

namespace weftc {

/// For all i_d < extent_d:  target[first + sum of i_d * target_d] = source[first' + sum of i_d * source_d],
/// where the first elements depend on the coordinates of the two ranks and on the chunk. The runtime's form is
/// weft::Exchange (weft/types.h).
struct ExchangeBox {
  static constexpr size_t kMostDims = 6;  // weft::kMaxDims

  /// A dimension of the box: its extent, and its strides in elements on both sides. Of run-time lengths the extent has
  /// the bounds; a request exchanges as much less as a rank holds less of these dimensions of the tensor.
  struct Dim {
    int64_t extent, source, target;
    std::vector<int> lengths = {};
  };
  std::vector<Dim> dims;
  std::vector<int64_t> source_by_me, target_by_peer;  // elements for each step of a coordinate, by axis of the step
  /// Ragged slices, where the last rank has less: the dimension of the box that ends early, with the whole
  /// extent and the block of a rank. by_peer: the peer's share limits it; by_me: this rank's.
  struct Clip {
    int dim = -1;
    int64_t extent = 0, block = 0;
    int length = -1;  // the dimension of the tensor whose run-time length stands for the extent
  };
  Clip by_peer, by_me;
  /// By how many elements one chunk moves the first element, by time axis of the step's mesh.
  std::vector<std::pair<int, int64_t>> source_by_chunk, target_by_chunk;

  /// How many elements one pair of ranks exchanges.
  int64_t elements() const;
  /// True for one run of elements that lies alike on both sides: the step then passes a plain count.
  bool is_identity() const;
};

/// The box of a collective in a place with `place_axes` axes; further axes of the step's mesh are those of
/// time. `by_bounds`: how the tensors lie, where they have run-time lengths (Storage). Nothing if the slices of several
/// axes do not nest, so that no strides describe them.
std::optional<ExchangeBox> exchange_box(const CollectiveStep& step, size_t place_axes, bool by_bounds = false);

}  // namespace weftc
