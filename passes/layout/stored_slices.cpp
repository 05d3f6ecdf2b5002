// Replaces a local slice of a value that is known when packed by a source in that layout:
//
//   %s = ShardSlice(%w), %w a constant    ->    %s = Constant() {%w} : [tp: S(1,32)]     stored sliced in the
//   executable
#include "passes/layout/stored_slices.h"

#include <set>

#include "ir/op_def.h"
#include "passes/graph_order.h"
#include "passes/layout/layout_rules.h"

namespace weftc {

namespace {

using Kind = AxisState::Kind;

/// Computes a value that depends on sources alone again, in a sliced layout.
class SourceSlicer {
 public:
  SourceSlicer(Module& module, Graph& graph) : module_(module), graph_(graph) {}

  void run(size_t first_op) {
    for (OpId id : first_op ? added_since(first_op) : graph_.order()) {
      for (Graph& region : graph_.edit(id).regions) SourceSlicer(module_, region).run(0);
      if (graph_.op(id).kind != OpKind::ShardSlice) continue;
      const ValueId whole = graph_.op(id).inputs[0], slice = graph_.op(id).outputs[0];
      if (!is_made_of_sources(whole, graph_.type(slice).layout)) continue;
      graph_.replace_uses(slice, rebuild(whole, graph_.type(slice).layout, id));
      graph_.erase(id);
    }
  }

 private:
  std::vector<OpId> added_since(size_t first_op) const {
    std::set<OpId> added;
    for (size_t i = first_op; i < graph_.op_capacity(); ++i)
      if (const OpId id{static_cast<uint32_t>(i)}; graph_.is_live(id)) added.insert(id);
    return in_graph_order(graph_, added);
  }
  static bool is_source(const Op& op) {
    return op.kind == OpKind::Constant || op.kind == OpKind::Iota || op.kind == OpKind::RandomUniform;
  }
  /// The operands' layouts with which an op gives its result in `layout`: of pointwise ops and transposes.
  std::optional<std::vector<Layout>> operand_layouts(const Op& op, const Layout& layout) const;
  bool is_made_of_sources(ValueId v, const Layout& layout) const;
  ValueId rebuild(ValueId v, const Layout& layout, OpId before);

  Module& module_;
  Graph& graph_;
};

std::optional<std::vector<Layout>> SourceSlicer::operand_layouts(const Op& op, const Layout& layout) const {
  std::vector<Layout> layouts(op.inputs.size());
  for (int a = 0; a < layout.size(); ++a) {
    if (!layout[a].is(Kind::S)) continue;
    if (op.kind == OpKind::Transpose) {
      const int64_t dim = op.ints("perm")[static_cast<size_t>(layout[a].dim)];
      layouts[0].set(a, AxisState::sliced(static_cast<int>(dim), layout[a].block));
      continue;
    }
    if (category(op) != Category::Pointwise) return {};
    const FactorRule rule = factor_rule(OpView(module_, graph_, op));
    const int factor = rule.outputs[0][static_cast<size_t>(layout[a].dim)];
    for (size_t i = 0; i < rule.inputs.size(); ++i)
      for (size_t d = 0; d < rule.inputs[i].size(); ++d)
        if (rule.inputs[i][d] == factor) layouts[i].set(a, AxisState::sliced(static_cast<int>(d), layout[a].block));
  }
  return layouts;
}

/// True if the value can be made in `layout` from constants, patterns and draws alone, with nothing computed
/// twice.
bool SourceSlicer::is_made_of_sources(ValueId v, const Layout& layout) const {
  const Op& op = graph_.producer_op(v);
  if (graph_.type(v).layout == layout || is_source(op)) return true;
  // Something else reads the whole value: computing a part of it again would not save the slice's copy.
  if (graph_.value(v).uses.size() > 1 && op.kind != OpKind::Transpose) return false;
  const auto layouts = operand_layouts(op, layout);
  if (!layouts || op.outputs.size() != 1) return false;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (op.inputs[i] && !is_made_of_sources(op.inputs[i], (*layouts)[i])) return false;
  return true;
}

/// Makes the value again in `layout`, operands first.
ValueId SourceSlicer::rebuild(ValueId v, const Layout& layout, OpId before) {
  if (graph_.type(v).layout == layout) return v;
  const Op op = graph_.producer_op(v);
  TensorType type = graph_.type(v);
  type.layout = layout;
  NewOp copy = copy_of(op);
  copy.results = {type};
  copy.result_names = {graph_.value(v).name};
  const auto layouts = is_source(op) ? std::vector<Layout>{} : *operand_layouts(op, layout);
  for (size_t i = 0; i < op.inputs.size(); ++i)
    copy.inputs.push_back(op.inputs[i] ? rebuild(op.inputs[i], layouts[i], before) : ValueId{});
  return graph_.result(graph_.add(std::move(copy), before));
}

}  // namespace

void store_sliced_sources(Module& module, Graph& graph, size_t first_op) { SourceSlicer(module, graph).run(first_op); }

}  // namespace weftc
