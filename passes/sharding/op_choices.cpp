#include "passes/sharding/op_choices.h"

#include <algorithm>
#include <iterator>

#include "ir/base/contains.h"
#include "ir/op_def.h"
#include "passes/layout/layout_rules.h"

namespace weftc {

namespace {

/// One use of an axis by an op: the states of the operands on it.
using AxisOption = std::vector<AxisState>;

/// Slices of the dims of the operands that run over a factor, all with one block.
AxisOption serving(const FactorRule& rule, int factor, int64_t block, size_t operands) {
  AxisOption option(operands);
  for (size_t i = 0; i < rule.inputs.size() && i < operands; ++i)
    for (size_t d = 0; d < rule.inputs[i].size(); ++d)
      if (rule.inputs[i][d] == factor) option[i] = AxisState::sliced(static_cast<int>(d), block);
  return option;
}

class OptionsOfOp {
 public:
  OptionsOfOp(const Module& module, const Graph& graph, OpId id, const SliceCandidates& slices)
      : op_(graph.op(id)), view_(module, graph, op_), slices_(slices) {}

  std::vector<AxisOption> on(int axis) const {
    std::vector<AxisOption> options = {AxisOption(op_.inputs.size())};
    const auto add = [&](AxisOption option) {
      if (!contains(options, option)) options.push_back(std::move(option));
    };
    if (category(op_) == Category::View) {
      add_moved(axis, add);
      return options;
    }
    const FactorRule rule = factor_rule(view_);
    for (size_t i = 0; i < rule.inputs.size() && i < op_.inputs.size(); ++i) {
      if (!op_.inputs[i]) continue;
      for (const AxisState& slice : slices_.of(op_.inputs[i], axis))
        if (const int factor = rule.inputs[i][static_cast<size_t>(slice.dim)]; factor >= 0)
          add(serving(rule, factor, slice.block, op_.inputs.size()));
    }
    return options;
  }

 private:
  /// A view moves the slice of one operand; a Concat has the same slice of all.
  template <class Add>
  void add_moved(int axis, const Add& add) const {
    for (const AxisState& slice : slices_.of(op_.inputs[0], axis)) {
      AxisOption option(op_.inputs.size());
      const size_t moved = op_.kind == OpKind::Concat ? op_.inputs.size() : 1;
      std::fill(option.begin(), option.begin() + static_cast<long>(moved), slice);
      add(std::move(option));
    }
  }

  const Op& op_;
  const OpView view_;
  const SliceCandidates& slices_;
};

/// True if readers of the operands get them as kept entries demand.
bool are_kept(const Op& op, const OpChoice& choice, const KeptLayouts& kept) {
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (op.inputs[i] && !kept.allows_use(op.inputs[i], choice.operands[i])) return false;
  return true;
}

}  // namespace

std::vector<OpChoice> op_choices(const Module& module, const Graph& graph, OpId id, const SliceCandidates& slices,
                                 const KeptLayouts& kept) {
  const Op& op = graph.op(id);
  const OpChoice alike{std::vector<Layout>(op.inputs.size()), std::vector<Layout>(op.outputs.size())};
  if (!is_settled(op) || op.inputs.empty()) return {alike};
  const Mesh mesh = module.mesh(graph, op.place);
  const OptionsOfOp options(module, graph, id, slices);
  std::vector<std::vector<Layout>> arriving = {alike.operands};
  for (int axis = 0; axis < static_cast<int>(mesh.size()); ++axis) {
    if (mesh[static_cast<size_t>(axis)].size == 1) continue;
    std::vector<std::vector<Layout>> more;
    for (const AxisOption& option : options.on(axis))
      for (std::vector<Layout> operands : arriving) {
        for (size_t i = 0; i < operands.size(); ++i) operands[i].set(axis, option[i]);
        more.push_back(std::move(operands));
      }
    arriving = std::move(more);
  }
  std::vector<OpChoice> choices;
  for (std::vector<Layout>& operands : arriving) {
    OpLayouts settled = settle(OpView(module, graph, op), mesh, operands);
    if (!settled.refusal.empty() || settled.operands != operands) continue;
    OpChoice choice{std::move(operands), std::move(settled.results)};
    if (are_kept(op, choice, kept) && !contains(choices, choice)) choices.push_back(std::move(choice));
  }
  return choices.empty() ? std::vector<OpChoice>{alike} : choices;
}

std::vector<Layout> value_choices(const Module& module, const Graph& graph, ValueId value,
                                  const SliceCandidates& slices, const KeptLayouts& kept) {
  const Op& producer = graph.producer_op(value);
  const bool is_free = is_settled(producer) || category(producer) == Category::Source;
  const Mesh mesh = module.mesh(graph, producer.place);
  std::vector<Layout> layouts = {Layout{}};
  for (int axis = 0; is_free && axis < static_cast<int>(mesh.size()); ++axis) {
    const size_t before = layouts.size();
    for (const AxisState& slice : slices.of(value, axis))
      for (size_t i = 0; i < before; ++i) {
        TensorType type = graph.type(value);
        type.layout = layouts[i];
        type.layout.set(axis, slice);
        if (check_layout(type, mesh).empty()) layouts.push_back(type.layout);
      }
  }
  std::vector<Layout> allowed;
  std::ranges::copy_if(layouts, std::back_inserter(allowed), [&](const Layout& l) { return kept.allows(value, l); });
  return allowed.empty() ? std::vector<Layout>{kept.of(value).value_or(Layout{})} : allowed;
}

}  // namespace weftc
