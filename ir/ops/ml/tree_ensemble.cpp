// TreeEnsembleRegressor and TreeEnsembleClassifier (ai.onnx.ml 1 and 3) and TreeEnsemble (5): one TreeSums, and what is
// done with its sums.
//
//   TreeEnsembleRegressor(x)   ->  post_transform(TreeSums(x, tables) + base_values)
//   TreeEnsembleClassifier(x)  ->  the same, and the class of the greatest sum
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ir/ops/ml/scores.h"
#include "ir/ops/ml/tree_tables.h"

namespace weftc {

namespace {

const ClassAttrs kClasses{"classlabels_int64s", "classlabels_strings"};

/// A list of floats, or the tensor of doubles that may stand in its place.
std::vector<double> reals_of(const OpView& op, const std::string& attr) {
  const Op& ensemble = op.op();
  if (ensemble.has(attr + "_as_tensor"))
    return op.module().constants.tensor(ensemble.constant(attr + "_as_tensor")).real;
  return ensemble.has(attr) ? ensemble.reals(attr) : std::vector<double>{};
}

/// What the nodes and rows are compared in: doubles if either has them.
DType compared_in(const OpView& op) {
  const auto is_double = [&](const char* attr) {
    return op.op().has(attr) && op.module().constants[op.op().constant(attr)].dtype == DType::F64;
  };
  return op.type(0).dtype == DType::F64 || is_double("nodes_values_as_tensor") || is_double("nodes_splits")
             ? DType::F64
             : DType::F32;
}

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
  const std::vector<double> values = reals_of(op_, "nodes_values");
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
  const std::vector<double> weights = reals_of(op_, votes_ + "_weights");
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

/// True if each leaf has a number for each target that its tree is for: what a least or greatest value is taken of.
bool votes_are_complete(const OpView& op, const TreeModel& model) {
  for (const TreeNode& node : model.nodes)
    if (node.test == TreeTest::Leaf && static_cast<int64_t>(node.votes.size()) != model.targets)
      return op.fail("tree-join-unsupported", "MIN and MAX need a weight of each target in each leaf");
  return true;
}

/// The sums [rows, targets] in the type of the comparisons; nothing after reporting.
std::optional<Term> tree_sums(Builder& build, const OpView& op, const TreeModel& model) {
  const DType dtype = compared_in(op);
  const int64_t features = rows_shape(op)[1].bound;
  const std::optional<TreeTables> tables = tree_tables(op, model, dtype, features);
  if (!tables) return {};
  const char* const join = reduce_name(model.join);
  const int64_t targets = model.targets, trees = static_cast<int64_t>(model.roots.size());
  Term rows = rows_of(build, op, dtype);
  if (tables->reads_negated)
    rows = {build, build.op(OpKind::Concat, {rows.value(), rows.apply(OpKind::Neg).value()}, {{"axis", int64_t{1}}})};
  if (trees == 0) return constant(build, dtype, {rows.dims()[0], targets}, {});
  const ValueId thresholds = build.constant(tables->thresholds), links = build.constant(tables->links),
                values = build.constant(tables->values), roots = build.constant(tables->trees);
  return Term(
      build,
      build.op(
          OpKind::TreeSums, {rows.value(), thresholds, links, values, roots},
          {{"depth", tables->depth}, {"feature_bits", tables->feature_bits}, {"join", join}, {"targets", targets}}));
}

/// The number that is added to each target: one for all, one for each, or none.
std::optional<Term> with_base(Builder& build, const OpView& op, std::optional<Term> sums, int64_t targets) {
  const std::vector<double> base = reals_of(op, "base_values");
  if (!sums || base.empty()) return sums;
  return *sums + constant(build, sums->dtype(), {1, targets}, base);
}

bool base_fits(const OpView& op, int64_t targets) {
  const size_t count = reals_of(op, "base_values").size();
  return count == 0 || static_cast<int64_t>(count) == targets ||
         op.fail("tree-base", "{} base_values do not fit {} targets", count, targets);
}

/// ONNX asks for the transform of a single number, ONNX Runtime leaves all but PROBIT out: nobody relies on either.
bool is_transform_of_one(const OpView& op, bool is_plain, int64_t targets) {
  return is_plain || targets > 1 ||
         op.fail("tree-post-transform-unsupported", "a post transform of a single target is not supported");
}

std::vector<ValueId> finish_regressor(std::optional<Term> sums, const std::string& transform, DType result) {
  if (!sums) return {};
  return {post_transform(*sums, transform).cast(result).value()};
}

// The regressor.

std::optional<TreeModel> regressor_model(const OpView& op) {
  std::optional<TreeModel> model = ListedTrees(op, "target", int_of(op.op(), "n_targets")).read();
  const std::string& join = text_of(op.op(), "aggregate_function");
  if (model && join != "SUM" && join != "AVERAGE") {
    model->join = join == "MIN" ? ReduceOp::Min : ReduceOp::Max;
    if (!votes_are_complete(op, *model)) return {};
  }
  return model;
}

bool infer_regressor(const OpView& op, std::vector<TensorType>& results) {
  const int64_t targets = op.op().integer_or("n_targets", 0);
  if (targets < 1) return op.fail("tree-targets", "n_targets is {}, expected at least 1", targets);
  const std::string& join = text_of(op.op(), "aggregate_function");
  if (join != "SUM" && join != "AVERAGE" && join != "MIN" && join != "MAX")
    return op.fail("tree-join", "aggregate_function '{}' is unknown, expected SUM, AVERAGE, MIN or MAX",
                   printable(join));
  const std::string& transform = text_of(op.op(), "post_transform");
  const bool is_plain = transform == "NONE" || transform == "PROBIT";
  if (!has_rows(op) || !is_post_transform(op) || !is_transform_of_one(op, is_plain, targets) || !base_fits(op, targets))
    return false;
  results = {{DType::F32, {rows_shape(op)[0], {targets, {}}}, {}}};
  return true;
}

std::vector<ValueId> decompose_regressor(Builder& build, const OpView& op) {
  const std::optional<TreeModel> model = regressor_model(op);
  if (!model) return {};
  std::optional<Term> sums = tree_sums(build, op, *model);
  if (sums && text_of(op.op(), "aggregate_function") == "AVERAGE")
    sums = *sums / static_cast<double>(std::max<size_t>(model->roots.size(), 1));
  return finish_regressor(with_base(build, op, sums, model->targets), text_of(op.op(), "post_transform"), DType::F32);
}

// The classifier.

/// Weights of one class of two: the other class has what is missing to 1, or the opposite.
struct LoneClass {
  bool is_lone = false;
  bool is_share = false;  // no weight is negative: sums are shares of 1
  int64_t id = 0;
};
LoneClass lone_class(const OpView& op) {
  const std::vector<int64_t> ids = ints_of(op.op(), "class_ids");
  const std::vector<double> weights = reals_of(op, "class_weights");
  LoneClass lone;
  lone.is_lone = !ids.empty() && std::all_of(ids.begin(), ids.end(), [&](int64_t id) { return id == ids[0]; });
  lone.is_share = std::all_of(weights.begin(), weights.end(), [](double w) { return w >= 0; });
  lone.id = ids.empty() ? 0 : ids[0];
  return lone;
}

bool infer_classifier(const OpView& op, std::vector<TensorType>& results) {
  const int64_t classes = class_count(op, kClasses);
  if (classes == 0 || !has_rows(op) || !is_post_transform(op)) return false;
  const LoneClass lone = lone_class(op);
  const bool is_pair = classes == 2 && lone.is_lone;
  if (is_pair && text_of(op.op(), "post_transform") == "PROBIT")
    return op.fail("tree-classifier-unsupported", "PROBIT of the weights of one class of two is not supported");
  if (!is_transform_of_one(op, text_of(op.op(), "post_transform") == "NONE", classes)) return false;
  if (!base_fits(op, is_pair ? 1 : classes)) return false;
  results = classifier_results(op, classes);
  return true;
}

/// The scores of two classes of which the trees know one, and whether it is the second class.
std::pair<Term, Term> pair_scores(Builder& build, Term sum, const LoneClass& lone, const std::string& transform) {
  const Term is_second = sum > (lone.is_share ? 0.5 : 0.0);
  const auto side_by_side = [&](Term a, Term b) {
    return Term(build, build.op(OpKind::Concat, {a.value(), b.value()}, {{"axis", int64_t{1}}}));
  };
  if (lone.id == 1) return {post_transform(side_by_side(sum * 0, sum), transform), is_second};
  if (transform == "LOGISTIC") return {side_by_side(logistic(sum * -1), logistic(sum)), is_second};
  return {side_by_side(lone.is_share ? 1 - sum : sum * -1, sum), is_second};
}

std::vector<ValueId> decompose_classifier(Builder& build, const OpView& op) {
  const int64_t classes = class_count(op, kClasses);
  const LoneClass lone = lone_class(op);
  const bool is_pair = classes == 2 && lone.is_lone;
  std::optional<TreeModel> model = ListedTrees(op, "class", classes).read();
  if (!model) return {};
  if (is_pair) {
    model->targets = 1;
    for (TreeNode& node : model->nodes)
      for (TreeVote& vote : node.votes) vote.target = 0;
  }
  const std::optional<Term> sums = with_base(build, op, tree_sums(build, op, *model), model->targets);
  if (!sums) return {};
  const std::string transform = text_of(op.op(), "post_transform");
  const auto flat = [&](Term column) { return column.reshape({column.dims()[0]}).cast(DType::I64); };
  if (classes == 1) return {flat(*sums > 0.0).value(), sums->cast(DType::F32).value()};
  if (is_pair) {
    const auto [scores, is_second] = pair_scores(build, *sums, lone, transform);
    return {labels_of(build, op, kClasses, flat(is_second)).value(), scores.cast(DType::F32).value()};
  }
  return {labels_of(build, op, kClasses, best_class(build, *sums)).value(),
          post_transform(*sums, transform).cast(DType::F32).value()};
}

// The ensemble of version 5, whose trees refer to nodes and leaves by position.

TreeTest test_of_number(int64_t mode) {
  constexpr TreeTest kTests[] = {TreeTest::LessOrEqual, TreeTest::Less,     TreeTest::GreaterOrEqual, TreeTest::Greater,
                                 TreeTest::Equal,       TreeTest::NotEqual, TreeTest::Member};
  return mode >= 0 && mode < 7 ? kTests[mode] : TreeTest::Leaf;
}

/// Inner nodes keep their positions; leaves follow them.
std::optional<TreeModel> ensemble_model(const OpView& op) {
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

bool infer_ensemble(const OpView& op, std::vector<TensorType>& results) {
  const int64_t targets = op.op().integer_or("n_targets", 1), join = int_of(op.op(), "aggregate_function"),
                transform = int_of(op.op(), "post_transform");
  if (targets < 1 || join < 0 || join > 3 || transform < 0 || transform > 4)
    return op.fail("tree-attributes", "n_targets {}, aggregate_function {} or post_transform {} is out of range",
                   targets, join, transform);
  if (!has_rows(op) || !is_real_operand(op, 0) || !is_transform_of_one(op, transform == 0 || transform == 4, targets))
    return false;
  results = {{op.type(0).dtype, {rows_shape(op)[0], {targets, {}}}, {}}};
  return true;
}

std::vector<ValueId> decompose_ensemble(Builder& build, const OpView& op) {
  static const char* const transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  std::optional<TreeModel> model = ensemble_model(op);
  if (!model) return {};
  const int64_t join = int_of(op.op(), "aggregate_function");
  if (join > 1) {
    model->join = join == 2 ? ReduceOp::Min : ReduceOp::Max;
    if (!votes_are_complete(op, *model)) return {};
  }
  std::optional<Term> sums = tree_sums(build, op, *model);
  if (sums && join == 0) sums = *sums / static_cast<double>(std::max<size_t>(model->roots.size(), 1));
  return finish_regressor(sums, transforms[int_of(op.op(), "post_transform")], op.type(0).dtype);
}

/// The attributes of nodes that classifier and regressor share, and those of votes, `class` or `target`.
std::vector<AttrSpec> listed_attrs(const std::vector<AttrSpec>& own) {
  std::vector<AttrSpec> attrs = {{"base_values", AttrType::Reals},
                                 {"base_values_as_tensor", AttrType::Tensor},
                                 {"nodes_falsenodeids", AttrType::Ints},
                                 {"nodes_featureids", AttrType::Ints},
                                 {"nodes_hitrates", AttrType::Reals},
                                 {"nodes_hitrates_as_tensor", AttrType::Tensor},
                                 {"nodes_missing_value_tracks_true", AttrType::Ints},
                                 {"nodes_modes", AttrType::Texts},
                                 {"nodes_nodeids", AttrType::Ints},
                                 {"nodes_treeids", AttrType::Ints},
                                 {"nodes_truenodeids", AttrType::Ints},
                                 {"nodes_values", AttrType::Reals},
                                 {"nodes_values_as_tensor", AttrType::Tensor},
                                 {"post_transform", AttrType::Text, "NONE"}};
  attrs.insert(attrs.end(), own.begin(), own.end());
  std::sort(attrs.begin(), attrs.end(),
            [](const AttrSpec& a, const AttrSpec& b) { return std::string_view(a.name) < b.name; });
  return attrs;
}

bool import_classifier(Graph&, OpId, int, const OpView& op) {
  warn_of_strings(op, kClasses);
  return true;
}

}  // namespace

const OpDef kTreeEnsembleRegressor{.kind = OpKind::TreeEnsembleRegressor,
                                   .name = "TreeEnsembleRegressor",
                                   .onnx = {"TreeEnsembleRegressor", 1, "ai.onnx.ml"},
                                   .attrs = listed_attrs({{"aggregate_function", AttrType::Text, "SUM"},
                                                          {"n_targets", AttrType::Int},
                                                          {"target_ids", AttrType::Ints},
                                                          {"target_nodeids", AttrType::Ints},
                                                          {"target_treeids", AttrType::Ints},
                                                          {"target_weights", AttrType::Reals},
                                                          {"target_weights_as_tensor", AttrType::Tensor}}),
                                   .infer = infer_regressor,
                                   .decompose = decompose_regressor};

const OpDef kTreeEnsembleClassifier{.kind = OpKind::TreeEnsembleClassifier,
                                    .name = "TreeEnsembleClassifier",
                                    .onnx = {"TreeEnsembleClassifier", 1, "ai.onnx.ml"},
                                    .attrs = listed_attrs({{"class_ids", AttrType::Ints},
                                                           {"class_nodeids", AttrType::Ints},
                                                           {"class_treeids", AttrType::Ints},
                                                           {"class_weights", AttrType::Reals},
                                                           {"class_weights_as_tensor", AttrType::Tensor},
                                                           {"classlabels_int64s", AttrType::Ints},
                                                           {"classlabels_strings", AttrType::Texts}}),
                                    .outputs = {1, 2},
                                    .import = import_classifier,
                                    .infer = infer_classifier,
                                    .decompose = decompose_classifier};

const OpDef kTreeEnsemble{.kind = OpKind::TreeEnsemble,
                          .name = "TreeEnsemble",
                          .onnx = {"TreeEnsemble", 5, "ai.onnx.ml"},
                          .attrs = {{"aggregate_function", AttrType::Int, 1},
                                    {"leaf_targetids", AttrType::Ints, {}, true},
                                    {"leaf_weights", AttrType::Tensor, {}, true},
                                    {"membership_values", AttrType::Tensor},
                                    {"n_targets", AttrType::Int, 1},
                                    {"nodes_falseleafs", AttrType::Ints, {}, true},
                                    {"nodes_falsenodeids", AttrType::Ints, {}, true},
                                    {"nodes_featureids", AttrType::Ints, {}, true},
                                    {"nodes_hitrates", AttrType::Tensor},
                                    {"nodes_missing_value_tracks_true", AttrType::Ints},
                                    {"nodes_modes", AttrType::Tensor, {}, true},
                                    {"nodes_splits", AttrType::Tensor, {}, true},
                                    {"nodes_trueleafs", AttrType::Ints, {}, true},
                                    {"nodes_truenodeids", AttrType::Ints, {}, true},
                                    {"post_transform", AttrType::Int, 0},
                                    {"tree_roots", AttrType::Ints, {}, true}},
                          .infer = infer_ensemble,
                          .decompose = decompose_ensemble};

}  // namespace weftc
