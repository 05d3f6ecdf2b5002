// Tree ensembles: rows walk down all trees. A walk waits for memory at each level, so eight walks advance in lockstep:
// eight rows in one tree, or for remaining rows one row in eight trees.
#pragma once
#include <algorithm>
#include <cstdint>

#include "weft/team.h"
#include "weft/tree_shape.h"

namespace weft {

namespace detail {

constexpr int kTreeWalks = 8;

/// Eight walks from `at` to their leaves; walk w reads the features from row + w * kStride on.
template <TreeShape kShape, int64_t kStride, class T>
inline void descend(const TreeNodes<T>& nodes, const T* row, int32_t (&at)[kTreeWalks], int32_t depth) {
  // Only for deep trees, whose branches differ in length, it checks whether all have arrived.
  constexpr bool kAsksArrival = kShape.depth > 8;
  for (int32_t level = 0; level < depth; ++level) {
    int32_t moved = 0;
#pragma GCC unroll 8
    for (int w = 0; w < kTreeWalks; ++w) {
      const int32_t link = nodes.links[at[w]];
      const bool is_second = !(row[w * kStride + kShape.feature(link)] <= nodes.thresholds[at[w]]);
      const int32_t step = kShape.distance(link) + int32_t(is_second);
      if constexpr (kAsksArrival) moved |= step;
      at[w] += step;
    }
    if (kAsksArrival && !moved) return;
  }
}

template <TreeShape kShape, class T>
inline void join_leaf(const TreeNodes<T>& nodes, int32_t leaf, T* sums) {
  const T* const value = nodes.values + leaf * kShape.width;
  for (int64_t k = 0; k < kShape.width; ++k) {
    if constexpr (kShape.join == TreeJoin::Sum) sums[k] += value[k];
    if constexpr (kShape.join == TreeJoin::Least) sums[k] = std::min(sums[k], value[k]);
    if constexpr (kShape.join == TreeJoin::Most) sums[k] = std::max(sums[k], value[k]);
  }
}

/// Eight rows, from `row` on.
template <TreeShape kShape, class T>
inline void walk_rows(const TreeNodes<T>& nodes, const int32_t* tree, const T* row, T* sums) {
  int32_t at[kTreeWalks];
  for (int32_t& start : at) start = tree[0];
  descend<kShape, kShape.features>(nodes, row, at, tree[1]);
  for (int w = 0; w < kTreeWalks; ++w) join_leaf<kShape>(nodes, at[w], sums + w * kShape.targets + tree[2]);
}

/// One row in all trees.
template <TreeShape kShape, class T>
inline void walk_trees(const TreeNodes<T>& nodes, const int32_t* trees, int64_t count, const T* row, T* sums) {
  for (int64_t first = 0; first < count; first += kTreeWalks) {
    int32_t at[kTreeWalks], depth = 0;
    for (int w = 0; w < kTreeWalks; ++w) {  // the last tree stands for those that are missing in a group
      const int32_t* const tree = trees + std::min(first + w, count - 1) * 3;
      at[w] = tree[0], depth = std::max(depth, tree[1]);
    }
    descend<kShape, 0>(nodes, row, at, depth);
    const int64_t last = std::min<int64_t>(kTreeWalks, count - first);
    for (int64_t w = 0; w < last; ++w) join_leaf<kShape>(nodes, at[w], sums + trees[(first + w) * 3 + 2]);
  }
}

}  // namespace detail

/// y[rows, targets] from x[rows, features]. Each row joins its leaves in the order of the trees, for any number of
/// threads.
template <TreeShape kShape, class T>
void walk_trees(Team& team, int64_t rows, int64_t trees, const T* x, const TreeNodes<T>& nodes, const int32_t* tree,
                T* y) {
  constexpr int64_t kBlock = 64, kGrainSteps = 32768;  // a block's rows stay in the first-level cache
  constexpr T kFar = std::numeric_limits<T>::infinity();
  constexpr T kStart = kShape.join == TreeJoin::Sum ? T(0) : kShape.join == TreeJoin::Least ? kFar : -kFar;
  const int64_t steps = std::max<int64_t>(1, trees * kShape.depth);
  const int64_t grain = std::clamp<int64_t>(kGrainSteps / steps / detail::kTreeWalks, 1, 8) * detail::kTreeWalks;
  team.parallel(rows, grain, [&](int64_t begin, int64_t end) {
    std::fill(y + begin * kShape.targets, y + end * kShape.targets, kStart);
    for (int64_t first = begin; first < end; first += kBlock) {
      const int64_t last = std::min(end, first + kBlock), whole = last - (last - first) % detail::kTreeWalks;
      for (int64_t t = 0; t < trees && whole > first; ++t)
        for (int64_t row = first; row < whole; row += detail::kTreeWalks)
          detail::walk_rows<kShape>(nodes, tree + t * 3, x + row * kShape.features, y + row * kShape.targets);
      for (int64_t row = whole; row < last; ++row)
        detail::walk_trees<kShape>(nodes, tree, trees, x + row * kShape.features, y + row * kShape.targets);
    }
  });
}

}  // namespace weft
