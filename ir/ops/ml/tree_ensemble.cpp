// TreeEnsembleRegressor and TreeEnsembleClassifier (ai.onnx.ml 1 and 3) and TreeEnsemble (5): one TreeSums, and ops on
// its sums.
//
//   TreeEnsembleRegressor(x)   ->  post_transform(TreeSums(x, tables) + base_values)
//   TreeEnsembleClassifier(x)  ->  the same, and the class of the greatest sum
#include <algorithm>

#include "ir/ops/ml/scores.h"
#include "ir/ops/ml/tree_models.h"
#include "ir/ops/step_loop.h"

namespace weftc {

namespace {

const ClassAttrs kClasses{"classlabels_int64s", "classlabels_strings"};

/// The type in which nodes and rows are compared: double if either has doubles.
DType compared_in(const OpView& op) {
  const auto is_double = [&](const char* attr) {
    return op.op().has(attr) && op.module().constants[op.op().constant(attr)].dtype == DType::F64;
  };
  return op.type(0).dtype == DType::F64 || is_double("nodes_values_as_tensor") || is_double("nodes_splits")
             ? DType::F64
             : DType::F32;
}

/// True if each leaf has a number for each target of its tree. A minimum or maximum needs that.
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
  if (trees == 0) {
    const Shape shape{rows_shape(op)[0], {targets, {}}};
    return Term(build, build.with_lengths(zeros(build, dtype, bounds(shape)), shape));
  }
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
  const std::vector<double> base = tree_reals(op, "base_values");
  if (!sums || base.empty()) return sums;
  return *sums + constant(build, sums->dtype(), {1, targets}, base);
}

bool base_fits(const OpView& op, int64_t targets) {
  const size_t count = tree_reals(op, "base_values").size();
  return count == 0 || static_cast<int64_t>(count) == targets ||
         op.fail("tree-base", "{} base_values do not fit {} targets", count, targets);
}

/// ONNX requires the transform of a single number; ONNX Runtime applies only PROBIT. No model relies on either.
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
  std::optional<TreeModel> model = listed_trees(op, "target", int_of(op.op(), "n_targets"));
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
  const std::string& transform = text_of(op.op(), "post_transform");
  const bool is_plain = transform == "NONE" || transform == "PROBIT";
  if (!has_rows(op) || !is_transform_of_one(op, is_plain, targets) || !base_fits(op, targets)) return false;
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

/// Weights of one class of two. The score of the other class is 1 minus the sum, or the sum negated.
struct LoneClass {
  bool is_lone = false;
  bool is_share = false;  // no weight is negative: sums are shares of 1
  int64_t id = 0;
};
LoneClass lone_class(const OpView& op) {
  const std::vector<int64_t> ids = ints_of(op.op(), "class_ids");
  const std::vector<double> weights = tree_reals(op, "class_weights");
  LoneClass lone;
  lone.is_lone = !ids.empty() && std::all_of(ids.begin(), ids.end(), [&](int64_t id) { return id == ids[0]; });
  lone.is_share = std::all_of(weights.begin(), weights.end(), [](double w) { return w >= 0; });
  lone.id = ids.empty() ? 0 : ids[0];
  return lone;
}

bool infer_classifier(const OpView& op, std::vector<TensorType>& results) {
  const int64_t classes = class_count(op, kClasses);
  if (classes == 0 || !has_rows(op)) return false;
  const LoneClass lone = lone_class(op);
  const bool is_pair = classes == 2 && lone.is_lone;
  if (is_pair && text_of(op.op(), "post_transform") == "PROBIT")
    return op.fail("tree-classifier-unsupported", "PROBIT of the weights of one class of two is not supported");
  const size_t base = tree_reals(op, "base_values").size();
  if (is_pair && (base > 1 || (base == 1 && lone.id == 1)))
    return op.fail("tree-base-unsupported", "{} base_values beside the weights of class {} of two are not supported",
                   base, lone.id);
  if (!is_transform_of_one(op, text_of(op.op(), "post_transform") == "NONE", classes)) return false;
  if (!base_fits(op, is_pair ? 1 : classes)) return false;
  results = classifier_results(op, kClasses, classes);
  return are_labels(op, kClasses);
}

/// The scores of two classes if the trees have only one of them, and whether that is the second class.
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
  std::optional<TreeModel> model = listed_trees(op, "class", classes);
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

bool infer_ensemble(const OpView& op, std::vector<TensorType>& results) {
  const int64_t targets = op.op().integer_or("n_targets", 1), join = int_of(op.op(), "aggregate_function"),
                transform = int_of(op.op(), "post_transform");
  if (targets < 1 || join < 0 || join > 3 || transform < 0 || transform > 4)
    return op.fail("tree-attributes", "n_targets {}, aggregate_function {} or post_transform {} is out of range",
                   targets, join, transform);
  if (!is_real_operand(op, 0) || !has_row_shape(op) ||
      !is_transform_of_one(op, transform == 0 || transform == 4, targets))
    return false;
  results = {{op.type(0).dtype, {rows_shape(op)[0], {targets, {}}}, {}}};
  return true;
}

std::vector<ValueId> decompose_ensemble(Builder& build, const OpView& op) {
  static const char* const transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  std::optional<TreeModel> model = placed_trees(op);
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

/// The attributes of nodes that classifier and regressor share, and the attributes of votes, `class` or `target`.
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
                                 choice("post_transform", "NONE", "NONE SOFTMAX LOGISTIC SOFTMAX_ZERO PROBIT")};
  attrs.insert(attrs.end(), own.begin(), own.end());
  std::sort(attrs.begin(), attrs.end(),
            [](const AttrSpec& a, const AttrSpec& b) { return std::string_view(a.name) < b.name; });
  return attrs;
}

}  // namespace

const OpDef kTreeEnsembleRegressor{.kind = OpKind::TreeEnsembleRegressor,
                                   .name = "TreeEnsembleRegressor",
                                   .onnx = {"TreeEnsembleRegressor", 1, "ai.onnx.ml"},
                                   .attrs = listed_attrs({choice("aggregate_function", "SUM", "SUM AVERAGE MIN MAX"),
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
                                    .infer = infer_classifier,
                                    .decompose = decompose_classifier,
                                    .takes_strings = true};

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
