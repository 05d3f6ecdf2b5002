// Ops that own graphs: If of ONNX (Loop and Scan are in loop.cpp), and the compiler's Chunk (a loop over pieces in
// time) and Fused (one kernel). A region's Input ops are its parameters, its outputs the results. infer-types types the
// region first, so that a record only reads the types of its outputs. Parameters correspond to the op's inputs, see Op
// in graph.h. None has a factor rule: the layout pass enters the region instead.
#include "ir/ops/region.h"

namespace weftc {

/// The results are the outputs of the only region.
static bool infer_body(const OpView& op, std::vector<TensorType>& results) {
  const Graph& body = op.op().regions[0];
  for (size_t i = 0; i < body.outputs().size(); ++i) results.push_back(output_type(body, i));
  return true;
}

/// Both branches must have the same type for each output: a buffer has one size.
static bool infer_if(const OpView& op, std::vector<TensorType>& results) {
  if (op.type(0).dtype != DType::Bool || op.type(0).count() != 1)
    return op.fail("if-condition", "the condition must be one bool");
  const Graph &then_branch = op.op().regions[0], &else_branch = op.op().regions[1];
  for (size_t i = 0; i < then_branch.outputs().size(); ++i) {
    const TensorType type = output_type(then_branch, i), other = output_type(else_branch, i);
    if (type != other)
      return op.fail("if-types-runtime-unsupported", "the branches give different types for output {}: {} and {}", i,
                     shape_text(type.shape), shape_text(other.shape));
    results.push_back(type);
  }
  return true;
}

/// Inputs: condition, captures. Regions: then, else; requests may not take the region `refused`.
const OpDef kIf{.kind = OpKind::If,
                .name = "If",
                .onnx = {"If"},
                .attrs = {{.name = "reason", .type = AttrType::Text, .is_own = true},
                          {.name = "refused", .type = AttrType::Int, .is_own = true}},
                .inputs = {1, -1},
                .outputs = {1, -1},
                .category = Category::Region,
                .infer = infer_if,
                .takes_strings = true};

/// The body over `chunks` pieces in time (C1-C7 of passes/transform/README.md); the region's last time axis is this
/// op's.
const OpDef kChunk{
    .kind = OpKind::Chunk,
    .name = "Chunk",
    .attrs = {{"chunks", AttrType::Int, {}, true}, {.name = "in_turn", .type = AttrType::Int, .is_own = true}},
    .inputs = {0, -1},
    .outputs = {0, -1},
    .category = Category::Region,
    .infer = infer_body,
    .takes_strings = true};

/// The body as one kernel: made by fuse-regions, and by the schedule's `fuse`.
const OpDef kFused{.kind = OpKind::Fused,
                   .name = "Fused",
                   .inputs = {0, -1},
                   .outputs = {0, -1},
                   .category = Category::Region,
                   .infer = infer_body,
                   .takes_strings = true};

}  // namespace weftc
