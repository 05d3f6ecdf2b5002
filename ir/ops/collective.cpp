// Ops between ranks. The layout before is that of the operand's type, the layout after that of the result's; `axes` are
// positions in the mesh of the op's place, in mesh order. Evaluation and code see all ranks at once, so it is not here.
#include "ir/ops/record.h"

namespace weft {

static bool infer_all_reduce(const OpView& op, std::vector<TensorType>& results) {
  const std::string& reduce = text_of(op.op(), "reduce");
  if (!parse_reduce(reduce))
    return op.fail("unknown-reduce", "'reduce' is '{}', expected one of sum, max, min, prod", printable(reduce));
  return infer_same(op, results);
}

/// From P(op) or V to R.
const OpDef kAllReduce{.kind = OpKind::AllReduce,
                       .name = "AllReduce",
                       .onnx = {"AllReduce", 1, "weft"},
                       .aliases = {{"AllReduce", 1, "com.microsoft"}},
                       .attrs = {{"axes", AttrType::Ints}, {"reduce", AttrType::Text, "sum"}},
                       .category = Category::Collective,
                       .infer = infer_all_reduce};

/// From P(op) to S.
const OpDef kReduceScatter{.kind = OpKind::ReduceScatter,
                           .name = "ReduceScatter",
                           .attrs = {{"axes", AttrType::Ints}, {"reduce", AttrType::Text, "sum"}},
                           .category = Category::Collective,
                           .infer = infer_all_reduce};

/// From S to R.
const OpDef kAllGather{.kind = OpKind::AllGather,
                       .name = "AllGather",
                       .attrs = {{"axes", AttrType::Ints}},
                       .category = Category::Collective,
                       .infer = infer_same};

/// From S to another S.
const OpDef kAllToAll{.kind = OpKind::AllToAll,
                      .name = "AllToAll",
                      .attrs = {{"axes", AttrType::Ints}},
                      .category = Category::Collective,
                      .infer = infer_same};

/// From R to S: each rank keeps its part, nothing is sent.
const OpDef kShardSlice{.kind = OpKind::ShardSlice,
                        .name = "ShardSlice",
                        .attrs = {{"axes", AttrType::Ints}},
                        .category = Category::Collective,
                        .infer = infer_same};

/// From the place of the operand's producer to the op's own place (P1).
const OpDef kTransfer{
    .kind = OpKind::Transfer, .name = "Transfer", .category = Category::Collective, .infer = infer_same};

}  // namespace weft
