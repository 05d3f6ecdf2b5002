// Which branch it is, and why, are attributes of the If until relate-lengths has turned them into a relation.
#include "passes/prepare/refused_branch.h"

#include "ir/builder.h"

namespace weftc {

/// A graph with the parameters of `branch` whose outputs are zeros of the types of `like`'s outputs.
static Graph zeros(Module& module, const Graph& branch, const Graph& like, const Op& owner) {
  Graph made;
  for (const ValueId parameter : branch.inputs()) {
    NewOp copy = copy_of(branch.producer_op(parameter));
    copy.results = {branch.type(parameter)};
    copy.result_names = {branch.value(parameter).name};
    made.add(std::move(copy));
  }
  Builder build(module, made, {}, owner);
  for (size_t i = 0; i < branch.outputs().size(); ++i) {
    const TensorType& type = like.type(like.outputs()[i].value);
    const ValueId zero = build.constant(Tensor::scalar(type.dtype, 0));
    const ValueId all = build.op(OpKind::Expand, {zero}, {{"shape", type.dims()}});
    made.add_output(build.with_lengths(all, type.shape), branch.outputs()[i].name);
  }
  return made;
}

std::string first_error(const Diags& found) {
  for (const Diagnostic& said : found.all()) {
    if (said.severity != Diagnostic::Severity::Error || said.id.ends_with("-unsupported")) continue;
    return said.loc.node.empty() ? said.message
                                 : format("node '{}' ({}): {}", said.loc.node, said.loc.op_type, said.message);
  }
  return "";
}

void refuse_branch(Module& module, Graph& graph, OpId id, size_t refused, const std::string& why, Diags& diags) {
  const Op owner = graph.op(id);
  const std::string branch = refused == 0 ? "then" : "else";
  const std::string name = owner.origins.empty() ? owner.name : module.origins[owner.origins[0].index].name;
  Graph made = zeros(module, owner.regions[refused], owner.regions[1 - refused], owner);
  Op& op = graph.edit(id);
  op.regions[refused] = std::move(made);
  op.set("refused", static_cast<int64_t>(refused));
  op.set("reason", format("the {} branch of '{}' cannot be run: {}", branch, name, why));
  diags.warning("branch-refused", module.loc(op), "{}; the program refuses requests that take it", op.text("reason"));
}

std::optional<RefusedBranch> refused_branch(const Op& op) {
  if (op.kind != OpKind::If || !op.has("refused")) return {};
  return RefusedBranch{op.integer("refused") == 0, op.text("reason")};
}

}  // namespace weftc
