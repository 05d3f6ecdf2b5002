#include "passes/stored_slices.h"

#include "passes/reshard.h"

namespace weft {

namespace {

using Kind = AxisState::Kind;

/// A slice of a constant is packed, of a coordinate's numbers or draws is made, in its layout: no step at run time.
void slice_sources(Graph& graph) {
  for (OpId id : graph.order()) {
    if (graph.op(id).kind != OpKind::ShardSlice) continue;
    const Op source = graph.producer_op(graph.op(id).inputs[0]);
    const bool movable = source.kind == OpKind::Constant || source.kind == OpKind::Iota || source.kind == OpKind::RandomUniform;
    if (!movable) continue;
    NewOp copy{source.kind, {}, {graph.type(graph.op(id).outputs[0])}, source.attrs, {}, source.place, source.name,
               source.origins, source.transform, {graph.value(source.outputs[0]).name}};
    const OpId made = graph.add(std::move(copy), id);
    graph.replace_uses(graph.op(id).outputs[0], graph.result(made));
    graph.erase(id);
  }
}

/// ShardSlice(Transpose(c)) -> Transpose(ShardSlice(c)), so that a transposed weight is stored sliced too.
void sink_slices_into_transposes(Module& module, Graph& graph) {
  for (OpId id : graph.order()) {
    if (graph.op(id).kind != OpKind::ShardSlice) continue;
    const OpId view = graph.producer(graph.op(id).inputs[0]);
    if (graph.op(view).kind != OpKind::Transpose ||
        graph.producer_op(graph.op(view).inputs[0]).kind != OpKind::Constant)
      continue;
    const std::vector<int64_t> perm = graph.op(view).ints("perm");
    const ValueId result = graph.op(id).outputs[0], source = graph.op(view).inputs[0];
    Layout layout = graph.type(result).layout;
    for (int a = 0; a < layout.size(); ++a)
      if (layout[a].is(Kind::S))
        layout.set(a, AxisState::sliced(static_cast<int>(perm[static_cast<size_t>(layout[a].dim)]), layout[a].block));
    Resharder resharder(module, graph);
    const ValueId sliced = resharder.reshard(source, layout);
    const Op& old = graph.op(view);
    const OpId made = graph.add({OpKind::Transpose, {sliced}, {graph.type(result)}, old.attrs, {}, old.place, old.name,
                                 old.origins, old.transform, {}}, id);
    graph.replace_uses(result, graph.result(made));
    graph.erase(id);
  }
}

}  // namespace

void store_sliced_sources(Module& module, Graph& graph) {
  sink_slices_into_transposes(module, graph);
  slice_sources(graph);
}

}  // namespace weft
