// Applies the schedule's transforms in order, each to every instance that its `{l}` variables name.
//
//   - split: {op: "h.{l}.mlp.c_proj.sum", dim: 0, into: ["rs{l}", "ag{l}"]}
//
//   %y.sum = AllReduce(%y)   ->   %rs0 = ReduceScatter(%y), %ag0 = AllGather(%rs0)      for l = 0, 1, ...
#include <algorithm>
#include <set>

#include "ir/op_def.h"
#include "passes/graph_order.h"
#include "passes/layout/stored_slices.h"
#include "passes/passes.h"
#include "passes/transform/transforms.h"

namespace weftc {

std::vector<OpId> StepContext::select(const Selector& selector) const {
  std::vector<OpId> found = names.select_ops(selector, bindings);
  if (found.empty()) names.report_unmatched({selector.kind, name(selector.text), selector.loc}, diags);
  return found;
}

/// True if a view or local slice is computed from outside for ops of a set alone.
static bool is_view_for(const Graph& graph, OpId id, const std::set<OpId>& ops) {
  const Op& op = graph.op(id);
  if (category(op) != Category::View && op.kind != OpKind::ShardSlice) return false;
  const auto& uses = graph.value(graph.result(id)).uses;
  const bool only_inside =
      std::all_of(uses.begin(), uses.end(), [&](const Use& use) { return use.op && ops.contains(use.op); });
  // A view of a weight stays outside: it is the weight that a kernel reads through it.
  return only_inside && (op.kind == OpKind::ShardSlice || graph.producer_op(op.inputs[0]).kind != OpKind::Constant);
}

/// Views and local slices on the way between ops of a set, or computed from outside only for it, belong to it.
static void add_views_between(const Graph& graph, std::set<OpId>& ops) {
  std::vector<OpId> front(ops.begin(), ops.end());
  while (!front.empty()) {
    const OpId reader = front.back();
    front.pop_back();
    for (ValueId v : graph.op(reader).inputs)
      if (v && !ops.contains(graph.producer(v)) && is_view_for(graph, graph.producer(v), ops)) {
        ops.insert(graph.producer(v));
        front.push_back(graph.producer(v));
      }
  }
}

/// True for values that exist and are not computed: inputs and weights. A single number counts as a part of its
/// reader.
static bool is_stored(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  return op.kind == OpKind::Input || (op.kind == OpKind::Constant && graph.type(op.outputs[0]).count() > 1);
}

std::vector<OpId> StepContext::select_all(const std::vector<Selector>& selectors) const {
  std::set<OpId> ops;
  for (const Selector& selector : selectors)
    for (OpId id : select(selector))
      if (!is_stored(graph(), id)) ops.insert(id);
  if (ops.empty() && diags.ok())
    diags.error("transform-no-op", loc, "'{}' is an input or a weight: name the ops that read it",
                name(selectors.front().text));
  add_views_between(graph(), ops);
  return in_graph_order(graph(), ops);
}

/// "of an op (AllReduce)": the present meaning of a selector of that name.
static std::string bearer_text(const Graph& graph, const SelectableNames& names, const std::string& name) {
  std::vector<OpId> ops = names.ops(name);
  if (ops.empty())
    for (ValueId v : names.values(name)) ops.push_back(graph.producer(v));
  const Op& op = graph.op(ops.front());
  if (op.kind == OpKind::Input) return "of an input of the model";
  if (op.kind == OpKind::Constant) return "of a weight";
  return op.name == name ? format("of an op ({})", op_def(op).name) : format("of a node or value ('{}')", op.name);
}

bool StepContext::is_free(const std::string& made, const Loc& loc) const {
  if (!names.has(made)) return true;
  diags.error("name-taken", loc, "'{}' is already the name {}; choose another one", made,
              bearer_text(graph(), names, made));
  return false;
}

namespace {

std::vector<Selector> selectors_of(const TransformStep& step) {
  std::vector<Selector> all;
  if (const auto* split = std::get_if<SplitStep>(&step.what)) all = {split->op};
  if (const auto* reorder = std::get_if<ReorderStep>(&step.what)) {
    all = reorder->moved;
    all.insert(all.end(), reorder->past.begin(), reorder->past.end());
  }
  if (const auto* fuse = std::get_if<FuseStep>(&step.what)) all = fuse->ops;
  if (const auto* overlap = std::get_if<OverlapStep>(&step.what)) all = overlap->ops;
  return all;
}

std::string cited_names(const std::vector<Selector>& selectors, const Bindings& bindings) {
  std::vector<std::string> names;
  for (const Selector& s : selectors) names.push_back(substitute(s.text, bindings));
  return join(names, ", ");
}

/// "fuse into far0": emitted code cites this instead of a line number.
std::string citation(const TransformStep& step, const Bindings& bindings) {
  if (const auto* fuse = std::get_if<FuseStep>(&step.what)) return "fuse into " + substitute(fuse->into, bindings);
  const std::string names = cited_names(selectors_of(step), bindings);
  if (std::holds_alternative<SplitStep>(step.what)) return "split " + names;
  if (std::holds_alternative<OverlapStep>(step.what)) return "overlap " + names;
  const auto& reorder = std::get<ReorderStep>(step.what);
  return "reorder " + cited_names(reorder.moved, bindings) + " past " + cited_names(reorder.past, bindings);
}

void apply_step(Module& module, SelectableNames& names, const TransformStep& step, const Env& env) {
  Diags& diags = env.diags;
  const std::vector<Selector> selectors = selectors_of(step);
  const std::vector<Bindings> instances = names.bindings(selectors);
  if (instances.empty()) names.report_unmatched(selectors.front(), diags);
  for (const Bindings& bindings : instances) {
    module.transforms.push_back({citation(step, bindings), step.loc});
    const size_t ops_before = module.graph.op_capacity();
    const TransformId id{static_cast<uint32_t>(module.transforms.size() - 1)};
    const StepContext context{module, diags, names, bindings, step.loc, id, env.unchecked};
    if (const auto* split = std::get_if<SplitStep>(&step.what)) split_collective(context, *split);
    if (const auto* reorder = std::get_if<ReorderStep>(&step.what)) reorder_collective(context, *reorder);
    if (const auto* fuse = std::get_if<FuseStep>(&step.what)) fuse_ops(context, *fuse);
    if (const auto* overlap = std::get_if<OverlapStep>(&step.what)) overlap_ops(context, *overlap);
    if (!diags.ok()) return;
    store_sliced_sources(module, module.graph, ops_before);
    names.add_new_ops();
  }
  store_sliced_sources(module, module.graph);  // former ops may have lost their other readers
  names.add_new_ops();
}

/// Steps that have nothing to do on one rank, where nothing is exchanged: those that name a collective, or the result
/// of such a step. A name that is neither is a mistake on one rank too.
class LeftOut {
 public:
  LeftOut(Module& module, const SelectableNames& names) : names_(names), made_(module.left_out) {
    const bool is_one_place = module.places.size() == 1 && !module.places[0].mesh.empty();
    is_one_rank_ = is_one_place && module.places[0].ranks.size() == 1;
  }

  bool takes(const TransformStep& step) {
    if (!is_one_rank_) return false;
    bool names_exchanged = false;
    for (const Selector& selector : selectors_of(step)) {
      if (means_something(selector)) continue;
      if (!is_exchanged(selector)) return false;
      names_exchanged = true;
    }
    if (!names_exchanged) return false;
    if (const auto* split = std::get_if<SplitStep>(&step.what)) made_.insert(split->into.begin(), split->into.end());
    if (const auto* fuse = std::get_if<FuseStep>(&step.what)) made_.insert(fuse->into + (fuse->bucket ? ".*" : ""));
    return true;
  }

 private:
  bool means_something(const Selector& selector) const {
    const std::vector<Bindings> instances = names_.bindings({selector});
    return std::any_of(instances.begin(), instances.end(),
                       [&](const Bindings& bindings) { return !names_.select_ops(selector, bindings).empty(); });
  }
  /// "down.sum" where there is a 'down', or a name that an earlier step would have made.
  bool is_exchanged(const Selector& selector) const {
    const size_t dot = selector.text.rfind('.');
    const bool is_of_node =
        dot != std::string::npos && means_something({Selector::Kind::Name, selector.text.substr(0, dot), selector.loc});
    return is_of_node || std::any_of(made_.begin(), made_.end(), [&](const std::string& made) {
             return NamePattern(made).match(selector.text).has_value();
           });
  }

  const SelectableNames& names_;
  bool is_one_rank_ = false;
  std::set<std::string>& made_;
};

}  // namespace

void apply_transforms(Module& module, const Env& env) {
  SelectableNames names(module, module.graph, env.schedule.aliases);
  LeftOut left_out(module, names);
  for (const TransformStep& step : env.schedule.transforms) {
    if (left_out.takes(step)) {
      env.diags.warning("transform-one-rank", step.loc,
                        "on one rank there are no collectives: this step names one, or what a step left out would have "
                        "made, and is left out");
      continue;
    }
    apply_step(module, names, step, env);
    if (!env.diags.ok()) return;
  }
  if (module.pipeline && module.pipeline->micro_batches > 1) chunk_micro_batches(module, env.schedule, env.diags);
  if (!env.diags.ok()) return;
  if (module.pipeline && module.training) settle_blocks(module, *env.schedule.pipeline);
  if (env.schedule.train && env.schedule.train->accumulate > 1)
    accumulate_micro_batches(module, env.schedule, env.diags);
}

}  // namespace weftc
