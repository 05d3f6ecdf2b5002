// split: an all-reduce is a reduce-scatter followed by an all-gather.
//
//   %y.sum = AllReduce(%y) : f32[8, 64]    ->    %rs = ReduceScatter(%y) : f32[8, 64] [tp: S(0,4)]
//                                                %ag = AllGather(%rs) : f32[8, 64]
#include <algorithm>

#include "passes/transform/transforms.h"

namespace weftc {

/// The layout with `dim` sliced over `axes`, outer first, inside the existing slices; nothing if they do not fit.
static std::optional<Layout> slice_over(const TensorType& type, int dim, const std::vector<int64_t>& axes,
                                        const Mesh& mesh) {
  TensorType sliced = type;
  int64_t block = type.shape[dim].bound;
  for (const Digit& d : digits_of(type.layout, dim, mesh)) block = std::min(block, d.block);
  for (int64_t axis : axes) {
    const int a = static_cast<int>(axis);
    // A dim that the ranks do not divide may be cut raggedly where nothing else slices it (L8).
    if (block % mesh[a].size && axes.size() == 1 && block == type.shape[dim].bound)
      block += mesh[a].size - block % mesh[a].size;
    if (block % mesh[a].size) return {};
    block /= mesh[a].size;
    sliced.layout.set(a, AxisState::sliced(dim, block));
  }
  if (!check_layout(sliced, mesh).empty()) return {};
  return sliced.layout;
}

std::optional<Layout> layout_of_slices(const Module& module, const Graph& graph, const Op& op, int dim) {
  return slice_over(graph.type(op.outputs[0]), dim, op.ints("axes"), module.mesh(graph, op.place));
}

Halves split_at(Graph& graph, OpId id, const Layout& layout, const std::vector<std::string>& names,
                TransformId transform) {
  const Op op = graph.op(id);
  const TensorType type = graph.type(op.outputs[0]);
  TensorType sliced = type;
  sliced.layout = layout;
  const auto collective = [&](OpKind kind, ValueId from, const TensorType& to, const std::string& name) {
    NewOp made{kind,      {from}, {to},    {{"axes", op.ints("axes")}}, {}, op.place, name, op.origins,
               transform, {},     op.block};
    if (kind == OpKind::ReduceScatter) made.attrs.push_back({"reduce", op.text("reduce")});
    return graph.add(std::move(made), id);
  };
  Halves halves;
  halves.scatter = collective(OpKind::ReduceScatter, op.inputs[0], sliced, names[0]);
  halves.gather = collective(OpKind::AllGather, graph.result(halves.scatter), type, names[1]);
  graph.replace_uses(op.outputs[0], graph.result(halves.gather));
  graph.erase(id);
  return halves;
}

void split_collective(const StepContext& step, const SplitStep& what) {
  Graph& graph = step.graph();
  const std::vector<OpId> selected = step.select(what.op);
  if (selected.empty()) return;
  if (selected.size() > 1 || graph.op(selected[0]).kind != OpKind::AllReduce) {
    step.diags.error("split-not-all-reduce", what.op.loc,
                     "split takes one all-reduce; '{}' is {}; `explain --names` lists the collectives, and `overlap` "
                     "cuts any of them into chunks",
                     step.name(what.op.text), selected.size() > 1 ? "several ops" : op_def(graph.op(selected[0])).name);
    return;
  }
  const Op op = graph.op(selected[0]);
  const Mesh mesh = step.module.mesh(graph, op.place);
  const TensorType type = graph.type(op.outputs[0]);
  if (what.dim < 0 || what.dim >= type.ndim()) {
    step.diags.error("split-dim", step.loc, "'{}' has {} dimensions, there is no dimension {}", op.name, type.ndim(),
                     what.dim);
    return;
  }
  const std::optional<Layout> layout = layout_of_slices(step.module, graph, op, what.dim);
  if (!layout) {
    step.diags.error(
        "split-indivisible", step.loc,
        "dimension {} of '{}' ({}) cannot be cut evenly over the ranks of '{}'; choose a dimension that their "
        "number divides",
        what.dim, op.name, type_text(type, mesh), mesh[static_cast<size_t>(op.ints("axes")[0])].name);
    return;
  }
  for (size_t i = 0; i < what.into.size(); ++i)
    if (!step.is_free(step.name(what.into[i]), i < what.into_locs.size() ? what.into_locs[i] : step.loc)) return;
  if (step.name(what.into[0]) == step.name(what.into[1])) {
    step.diags.error("split-into-equal", step.loc, "the reduce-scatter and the all-gather are both to be named '{}'",
                     step.name(what.into[0]));
    return;
  }
  split_at(graph, selected[0], *layout, {step.name(what.into[0]), step.name(what.into[1])}, step.transform);
}

}  // namespace weftc
