// Reads the lists of tree ensembles, and reports mismatches.
#include "ir/ops/ml/tree_models.h"

#include <cmath>
#include <map>
#include <set>

#include "ir/ops/record.h"

namespace weftc {

/// A list of floats, or the tensor of doubles that may replace it.
std::vector<double> tree_reals(const OpView& op, const std::string& attr) {
  const Op& ensemble = op.op();
  if (ensemble.has(attr + "_as_tensor"))
    return op.module().constants.tensor(ensemble.constant(attr + "_as_tensor")).real;
  return ensemble.has(attr) ? ensemble.reals(attr) : std::vector<double>{};
}

namespace {

std::optional<TreeTest> test_of(const std::string& mode) {
  static const std::map<std::string, TreeTest> tests = {{"BRANCH_LEQ", TreeTest::LessOrEqual},
                                                        {"BRANCH_LT", TreeTest::Less},
                                                        {"BRANCH_GTE", TreeTest::GreaterOrEqual},
                                                        {"BRANCH_GT", TreeTest::Greater},
                                                        {"BRANCH_EQ", TreeTest::Equal},
                                                        {"BRANCH_NEQ", TreeTest::NotEqual},
                                                        {"LEAF", TreeTest::Leaf}};
  const auto found = tests.find(mode);
  return found == tests.end() ? std::nullopt : std::optional(found->second);
}

/// Reads the attributes of the classifier and the regressor, which list nodes and votes by tree and number.
class ListedTrees {
 public:
  ListedTrees(const OpView& op, const char* votes, int64_t targets)
      : op_(op), votes_(votes), targets_(targets), trees_(ints_of(op.op(), "nodes_treeids")) {}

  std::optional<TreeModel> read() {
    model_.targets = targets_;
    if (!read_nodes() || !read_votes()) return {};
    return std::move(model_);
  }

 private:
  using Name = std::pair<int64_t, int64_t>;  // tree and number

  bool read_nodes();
  bool read_votes();
  bool has_length(const std::string& attr, size_t length, size_t expected) const {
    return length == expected || op_.fail("tree-lengths", "{} lists {} entries, expected {}", attr, length, expected);
  }
  int64_t position(int64_t tree, int64_t number) const {
    const auto found = positions_.find({tree, number});
    return found == positions_.end() ? -1 : found->second;
  }

  const OpView& op_;
  const std::string votes_;
  const int64_t targets_;
  const std::vector<int64_t> trees_;
  std::map<Name, int64_t> positions_;
  TreeModel model_;
};

bool ListedTrees::read_nodes() {
  const Op& op = op_.op();
  const auto numbers = ints_of(op, "nodes_nodeids"), features = ints_of(op, "nodes_featureids"),
             yes = ints_of(op, "nodes_truenodeids"), no = ints_of(op, "nodes_falsenodeids"),
             nan = ints_of(op, "nodes_missing_value_tracks_true");
  const std::vector<double> values = tree_reals(op_, "nodes_values");
  const std::vector<std::string> modes = op.has("nodes_modes") ? op.texts("nodes_modes") : std::vector<std::string>{};
  const size_t count = trees_.size();
  if (!has_length("nodes_nodeids", numbers.size(), count) || !has_length("nodes_modes", modes.size(), count) ||
      !has_length("nodes_featureids", features.size(), count) || !has_length("nodes_values", values.size(), count) ||
      !has_length("nodes_truenodeids", yes.size(), count) || !has_length("nodes_falsenodeids", no.size(), count) ||
      (!nan.empty() && !has_length("nodes_missing_value_tracks_true", nan.size(), count)))
    return false;
  for (size_t i = 0; i < count; ++i)
    if (!positions_.emplace(Name{trees_[i], numbers[i]}, static_cast<int64_t>(i)).second)
      return op_.fail("tree-node-repeated", "tree {} has two nodes {}", trees_[i], numbers[i]);
  std::vector<bool> is_child(count, false);
  for (size_t i = 0; i < count; ++i) {
    const std::optional<TreeTest> test = test_of(modes[i]);
    if (!test) return op_.fail("tree-mode", "nodes_modes has '{}', which ONNX does not know", printable(modes[i]));
    TreeNode node{*test, features[i], values[i], {}, !nan.empty() && nan[i] != 0, -1, -1, {}};
    if (*test != TreeTest::Leaf) {
      node.if_true = position(trees_[i], yes[i]), node.if_false = position(trees_[i], no[i]);
      for (int64_t child : {node.if_true, node.if_false})
        if (child >= 0) is_child[child] = true;
    }
    model_.nodes.push_back(std::move(node));
  }
  // The root of a tree is its first node that is not a child.
  std::set<int64_t> rooted;
  for (size_t i = 0; i < count; ++i)
    if (!is_child[i] && rooted.insert(trees_[i]).second) model_.roots.push_back(static_cast<int64_t>(i));
  return true;
}

bool ListedTrees::read_votes() {
  const auto trees = ints_of(op_.op(), votes_ + "_treeids"), numbers = ints_of(op_.op(), votes_ + "_nodeids"),
             targets = ints_of(op_.op(), votes_ + "_ids");
  const std::vector<double> weights = tree_reals(op_, votes_ + "_weights");
  if (!has_length(votes_ + "_treeids", trees.size(), weights.size()) ||
      !has_length(votes_ + "_nodeids", numbers.size(), weights.size()) ||
      !has_length(votes_ + "_ids", targets.size(), weights.size()))
    return false;
  for (size_t i = 0; i < weights.size(); ++i) {
    const int64_t node = position(trees[i], numbers[i]);
    if (node < 0 || model_.nodes[node].test != TreeTest::Leaf)
      return op_.fail("tree-vote", "a weight is for node {} of tree {}, which is no leaf", numbers[i], trees[i]);
    if (targets[i] < 0 || targets[i] >= targets_)
      return op_.fail("tree-target", "a weight is for target {}, but there are {}", targets[i], targets_);
    model_.nodes[node].votes.push_back({targets[i], weights[i]});
  }
  return true;
}

}  // namespace

std::optional<TreeModel> listed_trees(const OpView& op, const char* votes, int64_t targets) {
  return ListedTrees(op, votes, targets).read();
}

namespace {

/// Reads the attributes of TreeEnsemble-5. Inner nodes keep their positions; leaves follow them.
class PlacedTrees {
 public:
  explicit PlacedTrees(const OpView& op)
      : op_(op),
        features_(ints_of(op.op(), "nodes_featureids")),
        targets_(ints_of(op.op(), "leaf_targetids")),
        modes_(tensor("nodes_modes")),
        weights_(tensor("leaf_weights")),
        members_(tensor("membership_values")) {}

  std::optional<TreeModel> read() {
    model_.targets = int_of(op_.op(), "n_targets");
    model_.roots = ints_of(op_.op(), "tree_roots");
    if (!read_nodes() || !read_leaves()) return {};
    return std::move(model_);
  }

 private:
  Tensor tensor(const char* attr) const {
    return op_.op().has(attr) ? op_.module().constants.tensor(op_.op().constant(attr)) : Tensor(DType::F32, {0});
  }
  bool read_nodes();
  bool read_leaves();
  /// The test of node `i`; a membership test with its set, which ends with NaN in the list of all sets.
  bool read_test(size_t i, TreeNode& node);

  const OpView& op_;
  const std::vector<int64_t> features_, targets_;
  const Tensor modes_, weights_, members_;
  int64_t member_ = 0;
  TreeModel model_;
};

bool PlacedTrees::read_test(size_t i, TreeNode& node) {
  constexpr TreeTest kTests[] = {TreeTest::LessOrEqual, TreeTest::Less,     TreeTest::GreaterOrEqual, TreeTest::Greater,
                                 TreeTest::Equal,       TreeTest::NotEqual, TreeTest::Member};
  const int64_t mode = modes_.int_at(static_cast<int64_t>(i));
  if (mode < 0 || mode > 6) return op_.fail("tree-mode", "nodes_modes has {}, expected 0 to 6", mode);
  node.test = kTests[mode];
  if (node.test != TreeTest::Member) return true;
  for (; member_ < members_.size() && !std::isnan(members_.at(member_)); ++member_)
    node.members.push_back(members_.at(member_));
  return (!node.members.empty() && member_++ < members_.size()) ||
         op_.fail("tree-members", "membership_values has no set for node {}", i);
}

bool PlacedTrees::read_nodes() {
  const auto list = [&](const char* attr) { return ints_of(op_.op(), attr); };
  const auto yes = list("nodes_truenodeids"), no = list("nodes_falsenodeids"), yes_leaf = list("nodes_trueleafs"),
             no_leaf = list("nodes_falseleafs"), nan = list("nodes_missing_value_tracks_true");
  const Tensor splits = tensor("nodes_splits");
  const size_t count = features_.size();
  for (size_t length : {yes.size(), no.size(), yes_leaf.size(), no_leaf.size(), nan.empty() ? count : nan.size(),
                        static_cast<size_t>(modes_.size()), static_cast<size_t>(splits.size())})
    if (length != count)
      return op_.fail("tree-lengths", "the lists of {} nodes differ in length: one has {} entries", count, length);
  const auto child = [&](int64_t at, int64_t is_leaf) {
    return at < 0 ? -1 : at + (is_leaf ? static_cast<int64_t>(count) : 0);
  };
  for (size_t i = 0; i < count; ++i) {
    TreeNode node;
    node.feature = features_[i], node.value = splits.at(static_cast<int64_t>(i));
    node.nan_is_true = !nan.empty() && nan[i] != 0;
    node.if_true = child(yes[i], yes_leaf[i]), node.if_false = child(no[i], no_leaf[i]);
    if (!read_test(i, node)) return false;
    model_.nodes.push_back(std::move(node));
  }
  return true;
}

bool PlacedTrees::read_leaves() {
  if (static_cast<int64_t>(targets_.size()) != weights_.size())
    return op_.fail("tree-lengths", "{} leaf_weights do not fit {} leaf_targetids", weights_.size(), targets_.size());
  for (size_t i = 0; i < targets_.size(); ++i) {
    if (targets_[i] < 0 || targets_[i] >= model_.targets)
      return op_.fail("tree-target", "a weight is for target {}, but there are {}", targets_[i], model_.targets);
    TreeNode leaf;
    leaf.votes = {{targets_[i], weights_.at(static_cast<int64_t>(i))}};
    model_.nodes.push_back(std::move(leaf));
  }
  return true;
}

}  // namespace

std::optional<TreeModel> placed_trees(const OpView& op) { return PlacedTrees(op).read(); }

}  // namespace weftc
