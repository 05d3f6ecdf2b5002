// TreeSums: each row of a matrix walks down all trees of an ensemble; the values of the leaves that it reaches are
// summed, or their least or greatest taken, for each target. The tree ensembles of ai.onnx.ml become one of these, with
// the tables that tree_tables.h makes and weft/tree_shape.h describes.
//
//   TreeSums(x [rows, features], thresholds [nodes], links [nodes], values [nodes, width], trees [trees, 3])
//     ->  y [rows, targets]
#include <algorithm>

#include "ir/ops/record.h"

namespace weftc {

namespace {

constexpr int kRows = 0, kThresholds = 1, kLinks = 2, kValues = 3, kTrees = 4;

bool infer_tree_sums(const OpView& op, std::vector<TensorType>& results) {
  if (!has_ndim(op, kRows, 2, 2)) return false;
  results = {{op.type(kRows).dtype, {op.type(kRows).shape[0], {int_of(op.op(), "targets"), {}}}, {}}};
  return true;
}

/// Rows pass. Slicing the trees gives partial sums; the tables of nodes are whole on each rank.
FactorRule factors_tree_sums(const OpView& op) {
  const auto whole = [](int64_t extent) { return Factor{extent, Factor::Role::Whole}; };
  const std::optional<ReduceOp> join = parse_reduce(text_of(op.op(), "join"));
  FactorRule rule;
  rule.factors = {{op.dims(kRows)[0], Factor::Role::Pass},
                  whole(op.dims(kRows)[1]),
                  whole(op.dims(kThresholds)[0]),
                  whole(op.dims(kValues)[1]),
                  {op.dims(kTrees)[0], Factor::Role::Reduce, join.value_or(ReduceOp::Sum)},
                  whole(op.dims(kTrees)[1]),
                  whole(int_of(op.op(), "targets"))};
  rule.inputs = {{0, 1}, {2}, {2}, {2, 3}, {4, 5}};
  rule.outputs = {{0, 6}};
  return rule;
}

/// One row's walk down one tree.
int64_t leaf_of(const EvalContext& context, int64_t row, int64_t root, int64_t depth) {
  const Tensor &x = context.in(kRows), &thresholds = context.in(kThresholds), &links = context.in(kLinks);
  const int64_t bits = int_of(context.op, "feature_bits");
  int64_t at = root;
  for (int64_t level = 0; level < depth; ++level) {
    const int64_t link = links.integers[at], feature = link & ((int64_t{1} << bits) - 1);
    at += (link >> bits) + !(x.real[row * x.dims[1] + feature] <= thresholds.real[at]);
  }
  return at;
}

void eval_tree_sums(EvalContext& context) {
  const Tensor &values = context.in(kValues), &trees = context.in(kTrees);
  const ReduceOp join = *parse_reduce(text_of(context.op, "join"));
  Tensor result(context.in(kRows).dtype, context.result_dims[0]);
  std::fill(result.real.begin(), result.real.end(), reduce_identity(join));
  const int64_t width = values.dims[1], targets = result.dims[1];
  for (int64_t row = 0; row < result.dims[0]; ++row)
    for (int64_t t = 0; t < trees.dims[0]; ++t) {
      const int64_t* const tree = &trees.integers[t * 3];
      const int64_t leaf = leaf_of(context, row, tree[0], tree[1]);
      for (int64_t k = 0; k < width; ++k) {
        double& sum = result.real[row * targets + tree[2] + k];
        const double value = values.real[leaf * width + k];
        sum = join == ReduceOp::Sum ? sum + value : join == ReduceOp::Min ? std::min(sum, value) : std::max(sum, value);
      }
    }
  context.results[0] = std::move(result);
}

}  // namespace

const OpDef kTreeSums{.kind = OpKind::TreeSums,
                      .name = "TreeSums",
                      .attrs = {{"depth", AttrType::Int},
                                {"feature_bits", AttrType::Int},
                                {"join", AttrType::Text, "sum"},
                                {"targets", AttrType::Int}},
                      .inputs = {5, 5},
                      .category = Category::Index,
                      .infer = infer_tree_sums,
                      .factors = factors_tree_sums,
                      .eval = eval_tree_sums};

}  // namespace weftc
