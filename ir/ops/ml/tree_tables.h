// The tables of TreeSums, built from the nodes that a model lists. ONNX has seven comparisons and lets each node choose
// the branch of NaN. The tables have one comparison, `x <= threshold`, whose second child takes NaN:
//
//   x < t      x <= the number before t
//   x >= t     x < t with its children exchanged
//   x == t     x <= t, then x < t
//   NaN goes to the first child:  -x <= the number before -t, with the children exchanged: the negated features stand
//                                 after the features, and NaN goes to the second child again
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/op_def.h"

namespace weftc {

enum class TreeTest : uint8_t { LessOrEqual, Less, GreaterOrEqual, Greater, Equal, NotEqual, Member, Leaf };

/// The number that a leaf adds to a target.
struct TreeVote {
  int64_t target = 0;
  double value = 0;
};

/// A node as a model lists it; children are positions in TreeModel::nodes.
struct TreeNode {
  TreeTest test = TreeTest::Leaf;
  int64_t feature = 0;
  double value = 0;
  std::vector<double> members;  // Member
  bool nan_is_true = false;
  int64_t if_true = -1, if_false = -1;
  std::vector<TreeVote> votes;  // Leaf
};

/// An ensemble as a model lists it.
struct TreeModel {
  std::vector<TreeNode> nodes;
  std::vector<int64_t> roots;
  int64_t targets = 1;
  ReduceOp join = ReduceOp::Sum;
};

/// The operands and attributes of a TreeSums after its rows.
struct TreeTables {
  Tensor thresholds, links, values, trees;
  int64_t depth = 0, feature_bits = 0;
  bool reads_negated = false;  // the rows are followed by their negation
};

/// The tables for rows of `features` elements of `dtype`. Nothing after reporting a model that is not a forest: a node
/// is missing, or is below itself.
std::optional<TreeTables> tree_tables(const OpView& op, const TreeModel& model, DType dtype, int64_t features);

}  // namespace weftc
