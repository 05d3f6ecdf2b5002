// DistCollective, which TensorRT and its sharding tool write into the default domain: one op for all collectives, along
// the first dimension. It becomes the collective in its attribute.
#include "ir/ops/record.h"

namespace weftc {

namespace {

/// A value of `collective_operation`, and the corresponding collective.
struct Spelling {
  const char* name;
  OpKind kind;
};
constexpr Spelling kOperations[] = {{"all_reduce", OpKind::AllReduce}, {"reduce_scatter", OpKind::ReduceScatter},
                                    {"all_gather", OpKind::AllGather}, {"all_to_all", OpKind::AllToAll},
                                    {"broadcast", OpKind::Broadcast},  {"reduce", OpKind::Reduce}};

std::optional<OpKind> operation_of(const Op& op) {
  for (const Spelling& spelling : kOperations)
    if (op.text("collective_operation") == spelling.name) return spelling.kind;
  return {};
}

/// The number of ranks that the op joins; 0: all.
int64_t ranks_of(const Op& op) {
  const int64_t group = int_of(op, "group_size");
  return group > 0 ? group : op.integer_or("nb_rank", 0);
}

/// Only one group of all ranks is supported: a list of groups must be that one.
bool check_groups(const OpView& op) {
  const std::vector<int64_t> groups = ints_of(op.op(), "groups");
  const int64_t ranks = ranks_of(op.op());
  const bool all = groups.empty() || groups == range_of(0, ranks);
  const bool whole = op.op().integer_or("nb_rank", ranks) == ranks;
  if (all && whole) return true;
  return op.fail("collective-groups-unsupported",
                 "groups of some of the ranks are not supported: give the mesh one axis for each way to group them and "
                 "use the collectives of domain 'weft', whose 'over' names axes");
}

/// The attributes of the collective that replaces it.
Attrs attrs_for(OpKind kind, const Op& op) {
  Attrs attrs;
  const bool along = kind == OpKind::AllGather || kind == OpKind::ReduceScatter;
  const bool reduces = kind == OpKind::AllReduce || kind == OpKind::ReduceScatter || kind == OpKind::Reduce;
  if (along) attrs.push_back({"axis", int64_t{0}});
  if (kind == OpKind::AllToAll) attrs.push_back({"concat_axis", int64_t{0}});
  if (ranks_of(op)) attrs.push_back({"group_size", ranks_of(op)});
  if (reduces) attrs.push_back({"reduce", text_of(op, "reduce_op")});
  if (kind == OpKind::Broadcast || kind == OpKind::Reduce)
    attrs.push_back({"root", std::max<int64_t>(0, int_of(op, "root"))});
  if (kind == OpKind::AllToAll) attrs.push_back({"split_axis", int64_t{0}});
  return attrs;
}

/// Infers by the record of the collective that replaces the op, on a copy with its kind and attributes.
bool infer_dist_collective(const OpView& op, std::vector<TensorType>& results) {
  const std::optional<OpKind> kind = operation_of(op.op());
  if (!kind)
    return op.fail("collective-operation-unsupported",
                   "collective_operation '{}' is not supported, only all_reduce, reduce_scatter, all_gather, "
                   "all_to_all, broadcast and reduce",
                   printable(op.op().text("collective_operation")));
  const bool cuts = *kind != OpKind::AllReduce && *kind != OpKind::Broadcast && *kind != OpKind::Reduce;
  if (cuts && ranks_of(op.op()) < 1)
    return op.fail("collective-ranks", "neither 'nb_rank' nor 'group_size' says how many ranks '{}' joins",
                   printable(op.op().text("collective_operation")));
  if (!check_groups(op)) return false;
  Op like = op.op();
  like.kind = *kind;
  like.attrs = attrs_for(*kind, op.op());
  // The collective's own rule, which reports to the same node.
  return op_def(*kind).infer(op.with(like), results);
}

std::vector<ValueId> decompose_dist_collective(Builder& build, const OpView& op) {
  const OpKind kind = *operation_of(op.op());
  return {build.op(kind, {op.op().inputs[0]}, attrs_for(kind, op.op()))};
}

}  // namespace

const OpDef kDistCollective{.kind = OpKind::DistCollective,
                            .name = "DistCollective",
                            .onnx = {"DistCollective"},
                            .attrs = {{"collective_operation", AttrType::Text, {}, true},
                                      choice("reduce_op", "sum", "sum avg max min prod none"),
                                      {"root", AttrType::Int, -1},
                                      {"group_size", AttrType::Int, 0},
                                      {"groups", AttrType::Ints},
                                      {"nb_rank", AttrType::Int}},
                            .infer = infer_dist_collective,
                            .decompose = decompose_dist_collective};

}  // namespace weftc
