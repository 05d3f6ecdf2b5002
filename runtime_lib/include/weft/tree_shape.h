// What is known of a tree ensemble when a program is compiled, and how its nodes lie in memory.
#pragma once
#include <cstdint>
#include <limits>

namespace weft {

/// How the leaves that a row reaches are joined.
enum class TreeJoin : uint8_t { Sum, Least, Most };

/// Nodes of all trees lie one behind another. Node i is a threshold and a link, which holds a feature in its lowest
/// `feature_bits` bits and above them how far behind i its first child lies; the second child follows the first one.
/// A row goes to the first child if its feature is at most the threshold, else (NaN too) to the second one. A leaf has
/// the threshold NaN and a distance of -1, so that whoever reached it stays. Row i of `values` belongs to node i:
/// `width` numbers, for the targets from the tree's first one on. Of each tree, `trees` holds root, depth and first
/// target.
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
