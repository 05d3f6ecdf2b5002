// Tree ensembles on a device: a thread walks one row down all trees.
#pragma once
#include "weft/device.h"
#include "weft/tree_shape.h"

namespace weft {

namespace detail {

/// The leaf that a row reaches from `at`.
template <TreeShape kShape, class T>
WEFT_DEVICE int32_t leaf_of(const TreeNodes<T>& nodes, const T* row, int32_t at, int32_t depth) {
  for (int32_t level = 0; level < depth; ++level) {
    const int32_t link = nodes.links[at];
    const int32_t step = kShape.distance(link) + int32_t(!(row[kShape.feature(link)] <= nodes.thresholds[at]));
    if (step == 0) break;
    at += step;
  }
  return at;
}

template <TreeShape kShape, class T>
WEFT_DEVICE T joined(T a, T b) {
  if constexpr (kShape.join == TreeJoin::Sum) return a + b;
  if constexpr (kShape.join == TreeJoin::Least) return b < a ? b : a;
  return b > a ? b : a;
}

}  // namespace detail

/// y[rows, targets] from x[rows, features], each row's leaves joined in the order of the trees.
template <TreeShape kShape, class T>
WEFT_DEVICE void walk_trees(int64_t rows, int64_t trees, const T* x, const TreeNodes<T>& nodes, const int32_t* tree,
                            T* y) {
  const T start = kShape.join == TreeJoin::Sum ? T(0) : kShape.join == TreeJoin::Least ? T(INFINITY) : -T(INFINITY);
  for (int64_t row = thread(); row < rows; row += threads()) {
    T* const sums = y + row * kShape.targets;
    T only = start;  // the sum where there is one target stays in a register
    if constexpr (kShape.targets > 1)
      for (int64_t k = 0; k < kShape.targets; ++k) sums[k] = start;
    for (int64_t t = 0; t < trees; ++t) {
      const int32_t* const of = tree + t * 3;
      const int32_t leaf = detail::leaf_of<kShape>(nodes, x + row * kShape.features, of[0], of[1]);
      if constexpr (kShape.targets == 1) {
        only = detail::joined<kShape>(only, nodes.values[leaf]);
      } else {
        for (int64_t k = 0; k < kShape.width; ++k)
          sums[of[2] + k] = detail::joined<kShape>(sums[of[2] + k], nodes.values[leaf * kShape.width + k]);
      }
    }
    if constexpr (kShape.targets == 1) sums[0] = only;
  }
}

}  // namespace weft
