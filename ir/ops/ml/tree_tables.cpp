// Nodes are laid out tree by tree, level by level. The two children of a node are adjacent.
#include "ir/ops/ml/tree_tables.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace weftc {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
/// A larger forest does not come from a training library: tests for equality duplicate the nodes below them.
constexpr size_t kMostNodes = size_t{1} << 24;
constexpr int kMostLevels = 4096;

/// The next smaller number in the dtype. For -infinity it returns NaN: nothing is at most NaN.
double before(double value, DType dtype) {
  if (std::isinf(value) && value < 0) return kNaN;
  return dtype == DType::F64 ? std::nextafter(value, -INFINITY) : std::nextafter(static_cast<float>(value), -INFINITY);
}

/// A comparison `x <= threshold` of a feature, or of its negation, or a leaf. A test for several numbers becomes a
/// chain of comparisons that are not nodes of the model. `member` says how many of the numbers have been compared;
/// `is_lower_half`, whether the number itself must still be separated from smaller ones.
struct TreePlace {
  int64_t node = 0;
  size_t member = 0;
  bool is_lower_half = false;
};
struct Split {
  int64_t feature = 0;
  bool negated = false;
  double threshold = kNaN;
  TreePlace first, second;
};

/// `x <= threshold`; `nan` gives the branch for NaN.
Split split(const TreeNode& node, double threshold, TreePlace at_most, TreePlace above, bool nan_is_at_most,
            DType dtype) {
  if (!nan_is_at_most) return {node.feature, false, threshold, at_most, above};
  return {node.feature, true, std::isnan(threshold) ? INFINITY : before(-threshold, dtype), above, at_most};
}

/// Tests for one of the numbers of an equality test: first x <= number, then x < number.
Split equality_split(const TreeNode& node, const TreePlace& place, double number, bool is_last, DType dtype) {
  const TreePlace found{node.test == TreeTest::NotEqual ? node.if_false : node.if_true};
  const TreePlace missed = !is_last ? TreePlace{place.node, place.member + 1}
                                    : TreePlace{node.test == TreeTest::NotEqual ? node.if_true : node.if_false};
  // NaN equals no number: it takes the branch of a miss, unless the node says otherwise.
  const bool nan_is_found = node.nan_is_true && node.test != TreeTest::NotEqual;
  if (place.is_lower_half) return split(node, before(number, dtype), missed, found, !nan_is_found, dtype);
  return split(node, number, {place.node, place.member, true}, missed, nan_is_found, dtype);
}

Split split_of(const TreeNode& node, const TreePlace& place, DType dtype) {
  const TreePlace yes{node.if_true}, no{node.if_false};
  switch (node.test) {
    case TreeTest::LessOrEqual:
      return split(node, node.value, yes, no, node.nan_is_true, dtype);
    case TreeTest::Less:
      return split(node, before(node.value, dtype), yes, no, node.nan_is_true, dtype);
    case TreeTest::GreaterOrEqual:
      return split(node, before(node.value, dtype), no, yes, !node.nan_is_true, dtype);
    case TreeTest::Greater:
      return split(node, node.value, no, yes, !node.nan_is_true, dtype);
    case TreeTest::Equal:
    case TreeTest::NotEqual:
      return equality_split(node, place, node.value, true, dtype);
    case TreeTest::Member:
      return equality_split(node, place, node.members[place.member], place.member + 1 == node.members.size(), dtype);
    case TreeTest::Leaf:
      break;
  }
  return {};
}

/// A node of the tables. For a leaf, `votes` refer to the model.
struct Laid {
  int64_t feature = 0;
  double threshold = kNaN;
  int64_t distance = -1;
  const std::vector<TreeVote>* votes = nullptr;
};

class TreeLayout {
 public:
  TreeLayout(const OpView& op, const TreeModel& model, DType dtype, int64_t features)
      : op_(op), model_(model), dtype_(dtype), features_(features) {}

  std::optional<TreeTables> run() {
    for (int64_t root : model_.roots)
      if (!lay_tree(root)) return {};
    choose_width();
    return write();
  }

 private:
  bool lay_tree(int64_t root);
  bool lay(const TreePlace& place, size_t at, std::vector<TreePlace>& below);
  /// One number a leaf if all leaves of each tree vote for the same target, else one for each target.
  void choose_width();
  std::optional<TreeTables> write() const;

  const OpView& op_;
  const TreeModel& model_;
  const DType dtype_;
  const int64_t features_;
  std::vector<Laid> laid_;
  std::vector<size_t> tree_ends_;
  std::vector<int64_t> depths_, first_targets_;
  int64_t width_ = 1;
  bool reads_negated_ = false;
};

bool TreeLayout::lay(const TreePlace& place, size_t at, std::vector<TreePlace>& below) {
  if (place.node < 0 || place.node >= static_cast<int64_t>(model_.nodes.size()))
    return op_.fail("tree-node", "a tree refers to node {}, but there are {}", place.node, model_.nodes.size());
  const TreeNode& node = model_.nodes[place.node];
  if (node.test == TreeTest::Leaf) {
    laid_[at].votes = &node.votes;
    return true;
  }
  if (node.feature < 0 || node.feature >= features_)
    return op_.fail("tree-feature", "a tree compares feature {}, but a row has {}", node.feature, features_);
  const Split made = split_of(node, place, dtype_);
  reads_negated_ |= made.negated;
  laid_[at].feature = made.feature + (made.negated ? features_ : 0);
  laid_[at].threshold = made.threshold;
  laid_[at].distance = static_cast<int64_t>(laid_.size() - at);
  laid_.resize(laid_.size() + 2);
  below.push_back(made.first);
  below.push_back(made.second);
  return true;
}

bool TreeLayout::lay_tree(int64_t root) {
  std::vector<TreePlace> level = {{root}};
  size_t at = laid_.size();
  laid_.emplace_back();
  int64_t depth = -1;
  while (!level.empty()) {
    if (++depth > kMostLevels || laid_.size() > kMostNodes)
      return op_.fail("tree-cycle", "a tree has more than {} levels or {} nodes: one of its nodes stands below itself",
                      kMostLevels, kMostNodes);
    std::vector<TreePlace> below;
    for (const TreePlace& place : level)
      if (!lay(place, at++, below)) return false;
    level = std::move(below);
  }
  depths_.push_back(depth);
  tree_ends_.push_back(laid_.size());
  return true;
}

void TreeLayout::choose_width() {
  size_t at = 0;
  for (size_t end : tree_ends_) {
    int64_t target = -1;
    for (; at < end; ++at) {
      if (!laid_[at].votes) continue;
      for (const TreeVote& vote : *laid_[at].votes) {
        if (target >= 0 && vote.target != target) width_ = model_.targets;
        target = vote.target;
      }
    }
    first_targets_.push_back(std::max<int64_t>(target, 0));
  }
  if (width_ > 1) std::fill(first_targets_.begin(), first_targets_.end(), 0);
}

std::optional<TreeTables> TreeLayout::write() const {
  const auto trees = static_cast<int64_t>(model_.roots.size());
  // A table of one element would be a literal of the kernel, but the kernel reads tables from memory.
  const int64_t count = std::max<int64_t>(static_cast<int64_t>(laid_.size()), 2);
  TreeTables made;
  made.reads_negated = reads_negated_;
  made.feature_bits = std::bit_width(static_cast<uint64_t>(features_ * (reads_negated_ ? 2 : 1) - 1));
  made.thresholds = Tensor(dtype_, {count});
  made.links = Tensor(DType::I32, {count});
  made.values = Tensor(dtype_, {count, width_});
  made.trees = Tensor(DType::I32, {trees, 3});
  size_t at = 0;
  for (int64_t t = 0; t < trees; ++t) {
    made.depth = std::max(made.depth, depths_[t]);
    const int64_t of_tree[3] = {static_cast<int64_t>(at), depths_[t], first_targets_[t]};
    for (int64_t k = 0; k < 3; ++k) made.trees.put_int(t * 3 + k, of_tree[k]);
    for (; at < tree_ends_[t]; ++at) {
      const Laid& node = laid_[at];
      const int64_t link = node.distance * (int64_t{1} << made.feature_bits) + node.feature;
      if (link > std::numeric_limits<int32_t>::max())
        return op_.fail("tree-size-unsupported", "a tree of {} nodes over {} features is too large",
                        tree_ends_[t] - static_cast<size_t>(of_tree[0]), features_),
               std::nullopt;
      made.thresholds.put(static_cast<int64_t>(at), node.threshold);
      made.links.put_int(static_cast<int64_t>(at), link);
      for (size_t v = 0; node.votes && v < node.votes->size(); ++v) {
        const TreeVote& vote = (*node.votes)[v];
        double& value = made.values.real[static_cast<int64_t>(at) * width_ + vote.target - first_targets_[t]];
        value += vote.value;
      }
    }
  }
  return made;
}

}  // namespace

std::optional<TreeTables> tree_tables(const OpView& op, const TreeModel& model, DType dtype, int64_t features) {
  return TreeLayout(op, model, dtype, features).run();
}

}  // namespace weftc
