// Ops between ranks. The operand's type has the layout before, the result's type the layout after. `axes` are positions
// in the mesh of the op's place, in mesh order. Evaluation and code generation handle all ranks at once, so they are
// not here.
//
// A model's collective (L10) has the number of ranks that it joins (`group_size`), and its dimension if it joins or
// cuts tensors (`axis`; ir/exchange_types.h). The pass bind-collectives finds its mesh axes. A collective that the
// compiler inserts has neither attribute.
#include "ir/ops/record.h"

namespace weftc {

namespace {

/// "avg" is for floats only: it becomes a sum and a factor.
bool check_reduce(const OpView& op) {
  if (text_of(op.op(), "reduce") != "avg") return true;
  for (int i = 0; i < op.inputs(); ++i)
    if (!is_float(op.type(i).dtype))
      return op.fail("average-of-integers", "'reduce' is 'avg', but operand {} is {}: take 'sum'", i,
                     dtype_name(op.type(i).dtype));
  return true;
}

/// Each result has its operand's type.
bool infer_each(const OpView& op, std::vector<TensorType>& results) {
  if (static_cast<size_t>(op.inputs()) != op.op().outputs.size())
    return op.fail("collective-results", "{} operands make as many results, not {}", op.inputs(),
                   op.op().outputs.size());
  for (int i = 0; i < op.inputs(); ++i) results.push_back({op.type(i).dtype, op.type(i).shape, {}});
  return true;
}

/// Any number of operands: ONNX Runtime's training ops reduce all gradients in one op.
bool infer_all_reduce(const OpView& op, std::vector<TensorType>& results) {
  return check_reduce(op) && infer_each(op, results);
}

/// Broadcast and Reduce: `root` is an index in the group, not a rank of the world.
bool infer_rooted(const OpView& op, std::vector<TensorType>& results) {
  if (int_of(op.op(), "root") < 0)
    return op.fail("collective-root", "'root' is {}, expected a rank of the group, 0 or more", int_of(op.op(), "root"));
  return (op.op().kind == OpKind::Broadcast || check_reduce(op)) && infer_each(op, results);
}

/// A dimension that `attr` gives; the ranks of the group must divide its length.
std::optional<int64_t> cut_axis(const OpView& op, const char* attr) {
  const std::optional<int64_t> axis = op.axis(attr, op.type(0).ndim());
  const int64_t ranks = op.op().integer("group_size");
  if (!axis) return {};
  if (ranks >= 1 && op.dims(0)[static_cast<size_t>(*axis)] % ranks == 0) return axis;
  op.fail("collective-dim", "dimension {} of {} elements cannot be shared by {} ranks: their number must divide it",
          *axis, op.dims(0)[static_cast<size_t>(*axis)], ranks);
  return {};
}

/// A model's collective along a dimension needs the number of ranks, because that decides its result's shape.
bool check_group(const OpView& op) {
  const int64_t ranks = op.op().integer("group_size");
  if (ranks < 1 || ranks > (1 << 20))
    return op.fail("collective-group", "'group_size' is {}, expected the number of ranks of the group", ranks);
  for (int i = 0; i < op.inputs(); ++i)
    if (!is_fixed(op, i)) return false;
  return true;
}

/// From a model: the ranks' operands are concatenated, so the extent is multiplied by their number. From the compiler
/// (no `axis`): the global shape is kept.
bool infer_all_gather(const OpView& op, std::vector<TensorType>& results) {
  if (!op.op().has("axis")) return infer_same(op, results);
  const std::optional<int64_t> axis = op.axis("axis", op.type(0).ndim());
  if (!axis || !check_group(op) || !infer_same(op, results)) return false;
  results[0].shape[static_cast<size_t>(*axis)].bound *= op.op().integer("group_size");
  return true;
}

/// From a model: a rank's part of the reduced dimension. From the compiler (no `axis`): the global shape is kept.
bool infer_reduce_scatter(const OpView& op, std::vector<TensorType>& results) {
  if (!check_reduce(op)) return false;
  if (!op.op().has("axis")) return infer_same(op, results);
  if (!check_group(op)) return false;
  const std::optional<int64_t> axis = cut_axis(op, "axis");
  if (!axis || !infer_same(op, results)) return false;
  results[0].shape[static_cast<size_t>(*axis)].bound /= op.op().integer("group_size");
  return true;
}

/// From a model: shorter along the cut dimension, longer along the joined one.
bool infer_all_to_all(const OpView& op, std::vector<TensorType>& results) {
  if (!op.op().has("split_axis")) return infer_same(op, results);
  if (!check_group(op)) return false;
  const std::optional<int64_t> split = cut_axis(op, "split_axis"), concat = op.axis("concat_axis", op.type(0).ndim());
  if (!split || !concat || !infer_same(op, results)) return false;
  results[0].shape[static_cast<size_t>(*split)].bound /= op.op().integer("group_size");
  results[0].shape[static_cast<size_t>(*concat)].bound *= op.op().integer("group_size");
  return true;
}

/// Makes the axes of a model's collectives non-negative.
void canonical_axes(Op& op, const OpView& view) {
  fill_defaults(op);
  for (const char* attr : {"axis", "split_axis", "concat_axis"})
    if (op.has(attr)) op.set(attr, *view.axis(attr, view.type(0).ndim()));
}

/// A model names mesh axes; the schedule decides their positions in the mesh.
bool is_without_positions(const OpView& op) {
  return !op.op().has("axes") ||
         op.fail("collective-positions", "'axes' is not for models: name the axes of the mesh in 'over'");
}

/// A model's collective along a dimension gives that dimension and the number of ranks; defaults are the first
/// dimension and one rank.
bool import_along(Graph& graph, OpId id, int, const OpView& view) {
  if (!is_without_positions(view)) return false;
  Op& op = graph.edit(id);
  const bool exchanges = op.kind == OpKind::AllToAll;
  const char* attr = exchanges ? "split_axis" : "axis";
  if (!op.has(attr)) op.set(attr, int64_t{0});
  if (exchanges && !op.has("concat_axis")) op.set("concat_axis", op.integer("split_axis"));
  if (!op.has("group_size")) op.set("group_size", int64_t{1});
  return true;
}

/// A model's Broadcast or Reduce: the default root is 0.
bool import_rooted(Graph& graph, OpId id, int, const OpView& view) {
  if (!is_without_positions(view)) return false;
  Op& op = graph.edit(id);
  if (!op.has("root")) op.set("root", int64_t{0});
  return true;
}

/// The name of the mesh axis for a group's number in ONNX Runtime's training ops ("": all).
const char* axis_of_group(int64_t type) {
  switch (type) {
    case 0:
      return "";
    case 1:
      return "dp";
    case 4:
      return "tp";
    default:
      return nullptr;
  }
}

/// ONNX Runtime's training ops identify their group by a number; bind-collectives needs the name of a mesh axis.
bool import_group_type(Graph& graph, OpId id, int, const OpView& view) {
  if (!is_without_positions(view)) return false;
  Op& op = graph.edit(id);
  if (!op.has("group_type")) return true;
  const int64_t type = op.integer("group_type");
  const char* axis = axis_of_group(type);
  if (!axis)
    return view.fail("group-type-unsupported",
                     "group_type {} is not supported, only 0 (all ranks), 1 (data parallel: the mesh axis 'dp') and 4 "
                     "(horizontal parallel: the mesh axis 'tp')",
                     type);
  op.remove("group_type");
  if (*axis) op.set("over", std::string(axis));
  return true;
}

/// `over`: names of mesh axes, separated by commas; absent: all. `group_size`: number of ranks on these axes.
#define WEFT_GROUP \
  {"over", AttrType::Text}, { "group_size", AttrType::Int }

}  // namespace

/// From P(op) or V to R.
const OpDef kAllReduce{.kind = OpKind::AllReduce,
                       .name = "AllReduce",
                       .onnx = {"AllReduce", 1, "weft"},
                       .aliases = {{"AllReduce", 1, "com.microsoft"}, {"NcclAllReduce", 1, "com.microsoft"}},
                       .attrs = {{"axes", AttrType::Ints},
                                 choice("reduce", "sum", "sum avg max min prod"),
                                 {"group_type", AttrType::Int},
                                 WEFT_GROUP},
                       .inputs = {1, -1},
                       .outputs = {1, -1},
                       .category = Category::Collective,
                       .import = import_group_type,
                       .infer = infer_all_reduce};

/// From P(op) to S; a model's from V to V, each rank gets its part along `axis`.
const OpDef kReduceScatter{.kind = OpKind::ReduceScatter,
                           .name = "ReduceScatter",
                           .onnx = {"ReduceScatter", 1, "weft"},
                           .attrs = {{"axes", AttrType::Ints},
                                     choice("reduce", "sum", "sum avg max min prod"),
                                     {"axis", AttrType::Int},
                                     WEFT_GROUP},
                           .category = Category::Collective,
                           .import = import_along,
                           .infer = infer_reduce_scatter,
                           .canonicalize = canonical_axes};

/// From S to R; a model's from V to R, joined along `axis`.
const OpDef kAllGather{.kind = OpKind::AllGather,
                       .name = "AllGather",
                       .onnx = {"AllGather", 1, "weft"},
                       .aliases = {{"AllGather", 1, "com.microsoft"}},
                       .attrs = {{"axes", AttrType::Ints}, {"axis", AttrType::Int}, WEFT_GROUP},
                       .category = Category::Collective,
                       .import = import_along,
                       .infer = infer_all_gather,
                       .canonicalize = canonical_axes,
                       .takes_strings = true};

/// From S to another S; a model's from V to V: cut along `split_axis` and joined along `concat_axis`.
const OpDef kAllToAll{
    .kind = OpKind::AllToAll,
    .name = "AllToAll",
    .onnx = {"AllToAll", 1, "weft"},
    .aliases = {{"AllToAll", 1, "com.microsoft"}},
    .attrs = {{"axes", AttrType::Ints}, {"split_axis", AttrType::Int}, {"concat_axis", AttrType::Int}, WEFT_GROUP},
    .category = Category::Collective,
    .import = import_along,
    .infer = infer_all_to_all,
    .canonicalize = canonical_axes,
    .takes_strings = true};

/// From V to R: all ranks get the operand of the rank with index `root` in the group.
const OpDef kBroadcast{.kind = OpKind::Broadcast,
                       .name = "Broadcast",
                       .onnx = {"Broadcast", 1, "weft"},
                       .attrs = {{"axes", AttrType::Ints}, {"root", AttrType::Int}, WEFT_GROUP},
                       .category = Category::Collective,
                       .import = import_rooted,
                       .infer = infer_rooted,
                       .takes_strings = true};

/// From V to V: the rank of index `root` in the group gets the reduction, the others keep their operand.
const OpDef kReduce{.kind = OpKind::Reduce,
                    .name = "Reduce",
                    .onnx = {"Reduce", 1, "weft"},
                    .attrs = {{"axes", AttrType::Ints},
                              choice("reduce", "sum", "sum avg max min prod"),
                              {"root", AttrType::Int},
                              WEFT_GROUP},
                    .category = Category::Collective,
                    .import = import_rooted,
                    .infer = infer_rooted};

/// ONNX Runtime's gather for an optimizer that is spread over ranks. The concatenated operands are cut into one part
/// for each rank; each rank broadcasts the operands of its part. bind-collectives turns it into Broadcasts.
const OpDef kNcclAllGather{.kind = OpKind::NcclAllGather,
                           .name = "NcclAllGather",
                           .onnx = {"NcclAllGather", 1, "com.microsoft"},
                           .attrs = {{"group_type", AttrType::Int}, WEFT_GROUP},
                           .inputs = {1, -1},
                           .outputs = {1, -1},
                           .category = Category::Collective,
                           .import = import_group_type,
                           .infer = infer_each};

/// The reduction to the same parts: each operand is summed on the rank whose part contains it.
const OpDef kNcclReduceScatter{.kind = OpKind::NcclReduceScatter,
                               .name = "NcclReduceScatter",
                               .onnx = {"NcclReduceScatter", 1, "com.microsoft"},
                               .attrs = {{"group_type", AttrType::Int}, WEFT_GROUP},
                               .inputs = {1, -1},
                               .outputs = {1, -1},
                               .category = Category::Collective,
                               .import = import_group_type,
                               .infer = infer_each};

/// From R to S: each rank keeps its part, nothing is sent.
const OpDef kShardSlice{.kind = OpKind::ShardSlice,
                        .name = "ShardSlice",
                        .attrs = {{"axes", AttrType::Ints}},
                        .category = Category::Collective,
                        .infer = infer_same,
                        .takes_strings = true};

/// From the place of the operand's producer to the op's own place (P1).
const OpDef kTransfer{.kind = OpKind::Transfer,
                      .name = "Transfer",
                      .category = Category::Collective,
                      .infer = infer_same,
                      .takes_strings = true};

}  // namespace weftc
