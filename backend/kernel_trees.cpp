// Tree ensembles through weft/trees.h and weft/device_trees.h:
//
//   constexpr weft::TreeShape shape{.features = 8, .targets = 3, .width = 3, .feature_bits = 3, .depth = 6, ...};
//   weft::walk_trees<shape>(team, 32, 100, x, weft::TreeNodes<float>{thresholds, links, values}, trees, y);
#include "backend/kernel_text.h"
#include "ir/base/check.h"
#include "ir/base/text.h"
#include "ir/op_def.h"

namespace weftc {

namespace {

const Op& tree_sums_of(const Graph& body) {
  for (OpId id : body.order())
    if (body.op(id).kind == OpKind::TreeSums) return body.op(id);
  check_failed(__FILE_NAME__, __LINE__, "a kernel that walks down trees has none");
}

const char* join_name(const std::string& join) { return join == "sum" ? "Sum" : join == "min" ? "Least" : "Most"; }

std::string shape_line(const KernelContext& context, const Op& op, const std::string& shape) {
  return format(
      "constexpr weft::TreeShape {}{.features = {}, .targets = {}, .width = {}, .feature_bits = {}, .depth = {}, "
      ".join = weft::TreeJoin::{}};",
      shape, context.dims(op.inputs[0])[1], op.integer("targets"), context.dims(op.inputs[3])[1],
      op.integer("feature_bits"), op.integer("depth"), join_name(op.text("join")));
}

}  // namespace

Statements write_body(KernelContext& context, const TreeWalk&, Writer<TreeWalk>) {
  constexpr int64_t kThreads = 128;
  const Graph& body = context.body;
  const Op& op = tree_sums_of(body);
  std::vector<std::string> operands;
  for (ValueId input : op.inputs) {
    if (body.producer_op(input).kind != OpKind::Input) {
      context.refuse("kernel-trees-unsupported", op, "a tree ensemble whose operands are computed in the same kernel");
      return {};
    }
    operands.push_back(context.parameter_name(context.input_parameter(input)));
  }
  if (body.outputs().size() != 1 || body.outputs()[0].value != op.outputs[0]) {
    context.refuse("kernel-trees-unsupported", op, "a tree ensemble whose result is used in the same kernel");
    return {};
  }
  const TensorType& type = body.type(op.inputs[0]);
  std::string rows = context.run_extent(type, 0);
  if (rows.empty()) rows = std::to_string(context.dims(type)[0]);
  const bool has_team = !context.facts().has_grid;
  if (has_team) {
    context.need({Argument::Kind::Team});
  } else {
    context.cover((context.dims(type)[0] + kThreads - 1) / kThreads, kThreads);
  }
  context.need_header(has_team ? "trees.h" : "device_trees.h");
  const std::string shape = context.names.unique("shape");
  const std::string nodes = "weft::TreeNodes<" + std::string(memory_type(type.dtype)) + ">{" + operands[1] + ", " +
                            operands[2] + ", " + operands[3] + "}";
  return {shape_line(context, op, shape), "weft::walk_trees<" + shape + ">(" + (has_team ? "team, " : "") + rows +
                                              ", " + std::to_string(context.dims(op.inputs[4])[0]) + ", " +
                                              operands[0] + ", " + nodes + ", " + operands[4] + ", " +
                                              context.parameter_name(context.output_parameter(0)) + ");"};
}

}  // namespace weftc
