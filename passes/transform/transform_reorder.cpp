// reorder: moves an all-gather after ops that can run on its slices, or all-reduces after ops that are linear in their
// operands. Both are one rewrite: the ops are settled again with the operand of the collective, and the collective
// returns where a value leaves the set.
//
//   %ag = AllGather(%rs)                         %bias = Add(%rs, %b.slice) : [tp: S(0,4)]
//   %bias = Add(%ag, %b)                  ->     %out = Add(%bias, %x.slice) : [tp: S(0,4)]
//   %out = Add(%bias, %x)                        %ag = AllGather(%out)
#include <algorithm>
#include <set>

#include "ir/base/contains.h"
#include "passes/layout/layout_rules.h"
#include "passes/layout/reshard.h"
#include "passes/transform/transforms.h"

namespace weftc {

namespace {

using Kind = AxisState::Kind;

/// The decisions of one reorder, made on the graph as it is.
struct ReorderLayouts {
  std::map<ValueId, Layout> layouts;                   // new layouts of values
  std::map<std::pair<OpId, size_t>, Layout> operands;  // operands to be sliced locally
  std::vector<ValueId> live_out;
};

class Reorder {
 public:
  Reorder(const StepContext& step, const ReorderStep& what) : step_(step), what_(what), graph_(step.graph()) {}

  void run() {
    if (!read() || !decide()) return;
    apply();
  }

 private:
  bool read();
  bool read_past();
  bool decide();
  bool settle_op(OpId id);
  void find_live_out();
  bool carry_unchecked(const Op& op, size_t result, const std::vector<Layout>& arriving, Layout& layout);
  void apply();
  bool is_moved(OpId id) const { return contains(moved_, id); }
  bool is_past(OpId id) const { return past_.contains(id); }
  /// The value that replaces a moved collective's result for its readers: the collective's operand.
  ValueId unmoved(ValueId v) const { return is_moved(graph_.producer(v)) ? graph_.producer_op(v).inputs[0] : v; }
  Layout arriving(ValueId v) const {
    const ValueId from = unmoved(v);
    const auto at = new_.layouts.find(from);
    return at == new_.layouts.end() ? graph_.type(from).layout : at->second;
  }
  template <class... Arguments>
  bool refuse(const char* id, std::string_view pattern, const Arguments&... arguments) {
    step_.diags.error(id, step_.loc, pattern, arguments...);
    return false;
  }

  const StepContext& step_;
  const ReorderStep& what_;
  Graph& graph_;
  std::vector<OpId> moved_;
  std::set<OpId> past_;
  std::vector<OpId> order_;
  ReorderLayouts new_;
};

bool Reorder::read() {
  for (const Selector& s : what_.moved)
    for (OpId id : step_.select(s)) moved_.push_back(id);
  if (!step_.diags.ok() || moved_.empty()) return false;
  const OpKind wanted = what_.gather ? OpKind::AllGather : OpKind::AllReduce;
  for (OpId id : moved_)
    if (graph_.op(id).kind != wanted)
      return refuse("reorder-not-collective", "'{}' is {}, not {}", graph_.op(id).name, op_def(graph_.op(id)).name,
                    op_def(wanted).name);
  for (OpId id : moved_)
    if (graph_.type(graph_.op(id).inputs[0]).layout.has(Kind::V))
      return refuse("reorder-varying",
                    "'{}' joins what each rank has by itself: the ops after it would run on other values",
                    graph_.op(id).name);
  if (!read_past()) return false;
  for (OpId id : moved_)
    for (const Use& use : graph_.value(graph_.result(id)).uses)
      if (!use.op || !is_past(use.op))
        return refuse("reorder-read-elsewhere",
                      "'{}' is also read by {}; a collective moves only past all of its readers: list it too",
                      graph_.op(id).name, use.op ? "'" + graph_.op(use.op).name + "'" : "an output of the model");
  return true;
}

// If a node is named, its parts that read results of the collectives are moved past. Its constants, and views of its
// other operands, are the same on either side and stay. A node without such a part has no place in `past`.
bool Reorder::read_past() {
  std::set<OpId> after_moved(moved_.begin(), moved_.end());
  for (OpId id : step_.select_all(what_.past)) {
    if (is_moved(id)) continue;
    const auto& inputs = graph_.op(id).inputs;
    if (std::none_of(inputs.begin(), inputs.end(),
                     [&](ValueId v) { return v && after_moved.contains(graph_.producer(v)); }))
      continue;
    after_moved.insert(id);
    past_.insert(id), order_.push_back(id);
  }
  for (const Selector& s : what_.past) {
    const std::vector<OpId> parts = step_.select(s);
    if (!step_.diags.ok()) return false;
    if (std::none_of(parts.begin(), parts.end(), [&](OpId id) { return after_moved.contains(id); }))
      return refuse("reorder-independent", "'{}' does not read what '{}' makes; leave it out of `past`",
                    step_.name(s.text), graph_.op(moved_[0]).name);
  }
  return !past_.empty();
}

bool Reorder::settle_op(OpId id) {
  const Op& op = graph_.op(id);
  const bool plain = category(op) != Category::Collective && category(op) != Category::Region;
  if (!plain)
    return refuse("reorder-past-collective", "a collective does not move past '{}' ({})", op.name, op_def(op).name);
  const Mesh mesh = step_.module.mesh(graph_, op.place);
  std::vector<Layout> now;
  for (ValueId v : op.inputs) now.push_back(v ? arriving(v) : Layout{});
  const OpLayouts settled = settle(OpView(step_.module, graph_, op), mesh, now);
  for (size_t i = 0; i < now.size(); ++i)
    for (int a = 0; a < static_cast<int>(mesh.size()); ++a) {
      if (settled.operands[i][a] == now[i][a]) continue;
      if (!now[i][a].is(Kind::R) && step_.unchecked) continue;
      if (!now[i][a].is(Kind::R))
        return refuse("reorder-not-local",
                      "'{}' cannot run on {} of '{}' over '{}': it needs all of it ({} would be communicated again)",
                      op.name, now[i][a].is(Kind::P) ? "partial sums" : "slices", graph_.value(op.inputs[i]).name,
                      mesh[a].name, state_text(now[i][a]));
      new_.operands[{id, i}] = settled.operands[i];
    }
  for (size_t r = 0; r < op.outputs.size(); ++r) {
    const Layout& old = graph_.type(op.outputs[r]).layout;
    for (int a = 0; a < static_cast<int>(mesh.size()); ++a)
      if (settled.results[r][a].is(Kind::P) && !old[a].is(Kind::P) && what_.gather && !step_.unchecked)
        return refuse("reorder-reduces", "'{}' reduces the dimension that is sliced over '{}'", op.name, mesh[a].name);
    new_.layouts[op.outputs[r]] = settled.results[r];
    if (step_.unchecked && !carry_unchecked(op, r, now, new_.layouts[op.outputs[r]])) return false;
  }
  return true;
}

bool Reorder::carry_unchecked(const Op& op, size_t result, const std::vector<Layout>& arriving, Layout& layout) {
  for (int a = 0; a < static_cast<int>(step_.module.mesh(graph_, op.place).size()); ++a) {
    const bool sliced =
        std::any_of(arriving.begin(), arriving.end(), [&](const Layout& l) { return !l[a].is(Kind::R); });
    if (!sliced || !layout[a].is(Kind::R)) continue;
    const std::optional<AxisState> carried = step_.unchecked->carried(graph_, op, result, a, arriving);
    if (!carried) return refuse("reorder-unbuildable", "'{}' has no dimension to carry the slice on", op.name);
    layout.set(a, *carried);
  }
  return true;
}

void Reorder::find_live_out() {
  for (OpId id : order_)
    for (ValueId v : graph_.op(id).outputs) {
      const auto& uses = graph_.value(v).uses;
      const bool outside = std::any_of(uses.begin(), uses.end(), [&](const Use& u) { return !u.op || !is_past(u.op); });
      if (outside && !(new_.layouts.at(v) == graph_.type(v).layout)) new_.live_out.push_back(v);
    }
}

bool Reorder::decide() {
  for (OpId id : order_)
    if (!settle_op(id)) return false;
  find_live_out();
  return true;
}

void Reorder::apply() {
  const std::string name = graph_.op(moved_[0]).name;
  for (OpId id : moved_) graph_.replace_uses(graph_.result(id), graph_.op(id).inputs[0]);
  std::vector<Layout> old;
  for (ValueId v : new_.live_out) old.push_back(graph_.type(v).layout);
  for (const auto& [value, layout] : new_.layouts) {
    TensorType type = graph_.type(value);
    type.layout = layout;
    graph_.retype(value, std::move(type));
  }
  Resharder resharder(step_.module, graph_);
  for (const auto& [slot, layout] : new_.operands)
    graph_.set_input(slot.first, slot.second, resharder.reshard(graph_.op(slot.first).inputs[slot.second], layout));
  const TransformId transform = step_.transform;
  for (OpId id : order_) graph_.edit(id).transform = transform;
  for (OpId id : moved_) graph_.erase(id);
  for (size_t i = 0; i < new_.live_out.size(); ++i) {
    const ValueId v = new_.live_out[i];
    const std::vector<Use> uses = graph_.value(v).uses;
    const OpId before_reshard{static_cast<uint32_t>(graph_.op_capacity())};
    const ValueId back = resharder.reshard(v, old[i]);
    for (const Use& use : uses) {
      if (!use.op)
        graph_.set_output(use.input, back);
      else if (!is_past(use.op))
        graph_.set_input(use.op, use.input, back);
    }
    if (graph_.producer(back).index < before_reshard.index) continue;
    Op& made = graph_.edit(graph_.producer(back));
    made.transform = transform;
    if (i == 0) graph_.rename_op(graph_.producer(back), name);
  }
}

}  // namespace

void reorder_collective(const StepContext& step, const ReorderStep& what) {
  Reorder(step, what).run();
  if (step.module.pipeline) give_reshards_blocks(step.module);
}

}  // namespace weftc
