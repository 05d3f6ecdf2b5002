// Finds the ranks that a model's own collectives join: axes of the mesh by name (`over`), or all of them. Each then has
// one operand, and its meaning is that of one op.
//
//   %a, %b = AllReduce(%x, %y) {reduce = "avg"}   ->   %xs = Mul(%x, 0.25), %a = AllReduce(%xs) {axes = [0]}
//                                                      %ys = Mul(%y, 0.25), %b = AllReduce(%ys) {axes = [0]}
//
// A collective of one rank is nothing. Layouts come later: an operand may turn out to be the same on all ranks.
#include <algorithm>

#include "ir/base/contains.h"
#include "ir/builder.h"
#include "ir/exchange_types.h"
#include "ir/op_def.h"
#include "passes/passes.h"

namespace weftc {

namespace {

class CollectiveBinding {
 public:
  CollectiveBinding(Module& module, Graph& graph, Diags& diags) : module_(module), graph_(graph), diags_(diags) {}

  void run() {
    for (OpId id : graph_.order()) {
      for (Graph& region : graph_.edit(id).regions) CollectiveBinding(module_, region, diags_).run();
      const Op& op = graph_.op(id);
      if (category(op) == Category::Collective && op.kind != OpKind::Transfer) bind(id);
    }
  }

 private:
  /// The mesh axes that a collective joins.
  struct Group {
    std::vector<int64_t> axes;  // those with more than one rank, in mesh order
    int ranks = 1;
  };

  /// Replaces the collective by one for each operand, with axes and a root.
  void bind(OpId id) {
    const Op op = graph_.op(id);
    const std::optional<Group> group = group_of(op);
    if (!group || !check(op, *group)) return;
    std::vector<int64_t> roots(op.inputs.size(), op.integer_or("root", 0));
    if (is_spread(op.kind) && !place_operands(op, group->ranks, roots)) return;
    graph_.rename_op(id, op.name + "/whole");
    for (size_t i = 0; i < op.inputs.size(); ++i) replace(op, id, i, *group, roots[i]);
    graph_.erase(id);
  }

  /// ONNX Runtime's ops on operands that are spread over the ranks.
  static bool is_spread(OpKind kind) { return kind == OpKind::NcclAllGather || kind == OpKind::NcclReduceScatter; }

  std::optional<Group> group_of(const Op& op) const;
  bool check(const Op& op, const Group& group) const;
  bool place_operands(const Op& op, int ranks, std::vector<int64_t>& roots) const;
  void replace(const Op& op, OpId before, size_t operand, const Group& group, int64_t root);
  ValueId averaged(const Op& op, OpId before, ValueId operand, int ranks);

  Module& module_;
  Graph& graph_;
  Diags& diags_;
};

/// The axes that `over` names, or all; nothing after reporting a name that the mesh does not have.
std::optional<CollectiveBinding::Group> CollectiveBinding::group_of(const Op& op) const {
  const Mesh& mesh = module_.place(op.place).mesh;
  std::vector<std::string> known, wanted;
  for (const MeshAxis& axis : mesh) known.push_back(axis.name);
  if (op.has("over"))
    for (const std::string& name : split(op.text("over"), ',')) wanted.emplace_back(trim(name));
  for (const std::string& name : wanted)
    if (!contains(known, name)) {
      diags_.error("collective-axis", module_.loc(op),
                   "this {} joins the ranks of mesh axis '{}', which the schedule does not have: its mesh has {}{}",
                   op_def(op).name, printable(name), known.empty() ? "none" : "'" + join(known, "', '") + "'",
                   did_you_mean(name, known));
      return {};
    }
  Group group;
  for (size_t a = 0; a < mesh.size(); ++a) {
    const bool joined = wanted.empty() || contains(wanted, mesh[a].name);
    if (!joined || mesh[a].size == 1) continue;
    group.axes.push_back(static_cast<int64_t>(a));
    group.ranks *= mesh[a].size;
  }
  return group;
}

/// The model must be seen by each rank for itself, and its group_size and root must fit the mesh.
bool CollectiveBinding::check(const Op& op, const Group& group) const {
  const char* name = op_def(op).name;
  const auto fail = [&](const char* id, const std::string& why) {
    diags_.error(id, module_.loc(op), "{}", why);
    return false;
  };
  if (group.ranks > 1 && !module_.per_rank)
    return fail("collective-global-view",
                format("this {} joins what each rank has by itself, but the schedule sees one tensor on all ranks: say "
                       "`view: per-rank`, or take the collectives out of the model and say `shard`",
                       name));
  if (op.integer_or("group_size", group.ranks) != group.ranks)
    return fail("collective-group-size",
                format("group_size is {}, but this {} joins {} rank{}: the axes of the mesh it runs over must have {} "
                       "ranks in all, or group_size be {}",
                       op.integer("group_size"), name, group.ranks, group.ranks == 1 ? "" : "s",
                       op.integer("group_size"), group.ranks));
  if (op.integer_or("root", 0) >= group.ranks)
    return fail("collective-root-range", format("root is {}, but this {} joins {} rank{}: 0 to {}", op.integer("root"),
                                                name, group.ranks, group.ranks == 1 ? "" : "s", group.ranks - 1));
  return true;
}

/// Concatenates the operands, padded so that each rank has an equal part, of a multiple of 32 elements; each operand
/// must lie in one part. ONNX Runtime adds a whole multiple of padding even where it needs no padding.
bool CollectiveBinding::place_operands(const Op& op, int ranks, std::vector<int64_t>& roots) const {
  int64_t total = 0, offset = 0;
  for (ValueId v : op.inputs) total += graph_.type(v).count();
  const int64_t alignment = int64_t{32} * ranks;
  const int64_t part = (total + alignment - total % alignment) / ranks;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const int64_t count = graph_.type(op.inputs[i]).count();
    roots[i] = offset / part;
    if (count > 0 && (offset + count - 1) / part != roots[i]) {
      diags_.error(
          "collective-part", module_.loc(op),
          "operand {} ('{}') has elements {} to {} of {}, of which each rank has {}: one rank must have all of "
          "it; pad the operands or put them in another order",
          i, graph_.value(op.inputs[i]).name, offset, offset + count - 1, total, part);
      return false;
    }
    offset += count;
  }
  return true;
}

/// Multiplies the operand by 1/n before the collective: the sum is then the mean.
ValueId CollectiveBinding::averaged(const Op& op, OpId before, ValueId operand, int ranks) {
  Builder build(module_, graph_, before, op);
  const ValueId share = build.op(OpKind::Mul, {operand, build.scalar(operand, 1.0 / ranks)});
  graph_.edit(graph_.producer(share)).block = op.block;
  return share;
}

/// Replaces one result by a collective of one operand; by the operand alone where the group is one rank.
void CollectiveBinding::replace(const Op& op, OpId before, size_t operand, const Group& group, int64_t root) {
  const ValueId old = op.outputs[operand];
  ValueId value = op.inputs[operand];
  if (group.ranks > 1) {
    OpKind kind = op.kind;
    if (kind == OpKind::NcclAllGather) kind = OpKind::Broadcast;
    if (kind == OpKind::NcclReduceScatter) kind = OpKind::Reduce;
    const bool averages = op.has("reduce") && op.text("reduce") == "avg";
    if (averages) value = averaged(op, before, value, group.ranks);
    NewOp made = copy_of(op);
    made.kind = kind;
    made.inputs = {value};
    made.results = {graph_.type(old)};
    if (op.inputs.size() > 1) made.name += "." + std::to_string(operand);
    const OpId id = graph_.add(std::move(made), before);
    Op& bound = graph_.edit(id);
    bound.remove("over");
    bound.set("axes", group.axes);
    if (is_spread(op.kind)) bound.set("root", root);
    if (op.kind == OpKind::NcclReduceScatter || averages) bound.set("reduce", std::string("sum"));
    value = graph_.result(id);
  }
  const std::string name = graph_.value(old).name;
  graph_.replace_uses(old, value);
  if (group.ranks == 1) return;
  graph_.rename(old, name + "/whole");
  graph_.rename(value, name);
}

}  // namespace

void bind_collectives(Module& module, const Env& env) { CollectiveBinding(module, module.graph, env.diags).run(); }

}  // namespace weftc
