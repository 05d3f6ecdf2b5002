// Reads the lists of tree ensembles, and reports those that do not fit each other.
#include "ir/ops/ml/tree_models.h"

#include <cmath>
#include <map>
#include <set>

#include "ir/ops/record.h"

namespace weftc {

/// A list of floats, or the tensor of doubles that may stand in its place.
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
  // The root of a tree is its first node that is no other's child.
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

static TreeTest test_of_number(int64_t mode) {
  constexpr TreeTest kTests[] = {TreeTest::LessOrEqual, TreeTest::Less,     TreeTest::GreaterOrEqual, TreeTest::Greater,
                                 TreeTest::Equal,       TreeTest::NotEqual, TreeTest::Member};
  return mode >= 0 && mode < 7 ? kTests[mode] : TreeTest::Leaf;
}

/// Inner nodes keep their positions; leaves follow them.
std::optional<TreeModel> placed_trees(const OpView& op) {
  const Op& node = op.op();
  const auto tensor = [&](const char* attr) {
    return node.has(attr) ? op.module().constants.tensor(node.constant(attr)) : Tensor(DType::F32, {0});
  };
  const auto features = ints_of(node, "nodes_featureids"), yes = ints_of(node, "nodes_truenodeids"),
             no = ints_of(node, "nodes_falsenodeids"), yes_leaf = ints_of(node, "nodes_trueleafs"),
             no_leaf = ints_of(node, "nodes_falseleafs"), nan = ints_of(node, "nodes_missing_value_tracks_true"),
             targets = ints_of(node, "leaf_targetids");
  const Tensor modes = tensor("nodes_modes"), splits = tensor("nodes_splits"), weights = tensor("leaf_weights"),
               members = tensor("membership_values");
  const size_t count = features.size();
  const auto has_count = [&](size_t size) { return size == count; };
  if (!has_count(yes.size()) || !has_count(no.size()) || !has_count(yes_leaf.size()) || !has_count(no_leaf.size()) ||
      !has_count(modes.size()) || !has_count(splits.size()) || (!nan.empty() && !has_count(nan.size())) ||
      static_cast<int64_t>(targets.size()) != weights.size())
    return op.fail("tree-lengths", "the lists of {} nodes and {} leaves differ in length", count, targets.size()),
           std::nullopt;
  TreeModel model;
  model.targets = int_of(node, "n_targets");
  const auto child = [&](int64_t at, int64_t is_leaf) { return at < 0 ? -1 : at + (is_leaf ? int64_t(count) : 0); };
  int64_t member = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto at = static_cast<int64_t>(i);
    TreeNode made{
        test_of_number(modes.int_at(at)), features[i], splits.at(at), {}, !nan.empty() && nan[i] != 0, -1, -1, {}};
    if (made.test == TreeTest::Leaf)
      return op.fail("tree-mode", "nodes_modes has {}, expected 0 to 6", modes.int_at(at)), std::nullopt;
    made.if_true = child(yes[i], yes_leaf[i]), made.if_false = child(no[i], no_leaf[i]);
    for (; made.test == TreeTest::Member && member < members.size() && !std::isnan(members.at(member)); ++member)
      made.members.push_back(members.at(member));
    if (made.test == TreeTest::Member && (made.members.empty() || member++ == members.size()))
      return op.fail("tree-members", "membership_values has no set for node {}", i), std::nullopt;
    model.nodes.push_back(std::move(made));
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0 || targets[i] >= model.targets)
      return op.fail("tree-target", "a weight is for target {}, but there are {}", targets[i], model.targets),
             std::nullopt;
    TreeNode leaf;
    leaf.votes = {{targets[i], weights.at(static_cast<int64_t>(i))}};
    model.nodes.push_back(std::move(leaf));
  }
  model.roots = ints_of(node, "tree_roots");
  return model;
}

}  // namespace weftc
