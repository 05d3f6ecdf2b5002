// The compile-time parameters of a tree ensemble, and the layout of its nodes in memory.
#pragma once
#include <cstdint>
#include <limits>

namespace weft {

/// How the leaves that a row reaches are joined.
enum class TreeJoin : uint8_t { Sum, Least, Most };

/// Nodes of all trees are contiguous. Node i is a threshold and a link. The lowest `feature_bits` bits of the link are
/// a feature; the bits above are the distance from i to its first child. The second child follows the first one. A row
/// goes to the first child if its feature is at most the threshold, else (also for NaN) to the second one. A leaf has
/// the threshold NaN and a distance of -1, so that a row stays there. Row i of `values` belongs to node i: `width`
/// numbers, for the targets from the tree's first one on. `trees` holds root, depth and first target of each tree.
struct TreeShape {
  int64_t features = 1, targets = 1, width = 1;
  int feature_bits = 0, depth = 0;  // of the deepest tree
  TreeJoin join = TreeJoin::Sum;

  constexpr int64_t feature(int32_t link) const { return link & ((int32_t{1} << feature_bits) - 1); }
  constexpr int32_t distance(int32_t link) const { return link >> feature_bits; }
};

/// The nodes of an ensemble.
template <class T>
struct TreeNodes {
  const T* thresholds;
  const int32_t* links;
  const T* values;
};

}  // namespace weft
