// Makes the backward pass of a training recompute values of the forward pass instead of keeping them (`recompute:`):
//
//   h = Gelu(a)                         h = Gelu(a)
//   y = MatMul(h, w)                    y = MatMul(h, w)
//   ...                          ->     ...                                 here only a lies in memory, not h
//   dw = MatMul(h', dy)                 h.again = Gelu(a)
//                                       dw = MatMul(h.again', dy)
//
// The forward pass is all that the loss depends on; the backward pass is what the derivatives depend on besides. A copy
// goes right before its first reader. The backward pass and the ops after it are marked late: they are neither merged
// nor fused with the forward pass, which would keep the recomputed values in memory. Random draws are drawn again by
// the same key.
#include <algorithm>
#include <set>
#include <unordered_map>

#include "passes/passes.h"
#include "passes/prepare/smallest_kept.h"
#include "passes/select.h"

namespace weftc {

namespace {

/// The values that the schedule names.
KeptValues named_values(const Module& module, const TrainingPasses& passes, const Env& env) {
  const Graph& graph = module.graph;
  const SelectableNames names(module, graph, env.schedule.aliases);
  KeptValues kept;
  for (const Selector& selector : env.schedule.train->recompute->keep) {
    bool is_any = false, is_any_forward = false;
    for (const Bindings& bindings : names.bindings({selector}))
      for (const ValueId v : names.select_values(selector, bindings)) {
        is_any = true;
        if (!passes.is_forward(graph.producer(v))) continue;
        is_any_forward = true;
        kept.insert(v);
      }
    if (!is_any)
      names.report_unmatched(selector, env.diags);
    else if (!is_any_forward)
      env.diags.error("recompute-keep", selector.loc, "'{}' names no value that the loss is computed from",
                      printable(shown_selector(selector)));
  }
  return kept;
}

/// Late ops are known by the phases of their origins. An op of the forward pass may have taken in an equal one of the
/// backward pass: it is not known by that one's origins any more.
void set_apart(Module& module, const TrainingPasses& passes) {
  Graph& graph = module.graph;
  module.training->recomputes = true;
  for (OpId id = graph.first(); id; id = graph.next(id))
    if (passes.is_forward(id))
      std::erase_if(graph.edit(id).origins,
                    [&](OriginId origin) { return module.origins[origin.index].phase != Phase::Forward; });
}

/// Writes the ops that recompute values that are not kept.
class AgainWriter {
 public:
  AgainWriter(Module& module, const TrainingPasses& passes, const KeptValues& kept)
      : module_(module), graph_(module.graph), passes_(passes), kept_(kept) {}

  void run() {
    for (const Again& each : computed_again(graph_, passes_, kept_)) copy(each.op, each.reader);
    for (const OpId id : passes_.late())
      for (size_t i = 0; i < graph_.op(id).inputs.size(); ++i)
        if (const ValueId v = graph_.op(id).inputs[i]; !is_there(v)) graph_.set_input(id, i, again_.at(v));
  }

 private:
  bool is_there(ValueId v) const { return weftc::is_there(graph_, passes_, kept_, v); }

  void copy(OpId id, OpId reader) {
    const Op& op = graph_.op(id);
    NewOp made = copy_of(op);
    made.name += kAgain;
    made.origins = origins_of(op);
    made.regions = op.regions;
    for (Graph& region : made.regions) rename_in(region);
    for (const ValueId v : op.inputs) made.inputs.push_back(is_there(v) ? v : again_.at(v));
    for (const ValueId v : op.outputs) {
      made.results.push_back(graph_.type(v));
      made.result_names.push_back(graph_.value(v).name + std::string(kAgain));
    }
    const std::vector<ValueId> results = op.outputs;
    const OpId copied = graph_.add(std::move(made), reader);
    for (size_t r = 0; r < results.size(); ++r) {
      const ValueId again = graph_.op(copied).outputs[r];
      again_.emplace(results[r], again);
      module_.again[graph_.value(results[r]).name] = graph_.value(again).name;
    }
  }

  void rename_in(Graph& region) {
    for (const OpId id : region.order()) {
      for (Graph& inner : region.edit(id).regions) rename_in(inner);
      region.edit(id).origins = origins_of(region.op(id));
      if (region.op(id).kind != OpKind::Input) region.rename_op(id, region.op(id).name + std::string(kAgain));
    }
  }

  /// Separate origins, so that a name in a schedule means the same as in the model.
  std::vector<OriginId> origins_of(const Op& op) {
    std::vector<OriginId> origins;
    for (const OriginId first : op.origins) {
      const auto [at, is_new] =
          origins_.try_emplace(first.index, OriginId{static_cast<uint32_t>(module_.origins.size())});
      origins.push_back(at->second);
      if (!is_new) continue;
      Origin origin = module_.origins[first.index];
      origin.name += kAgain;
      origin.phase = Phase::Backward;
      origin.of = first;
      module_.origins.push_back(std::move(origin));
    }
    std::ranges::sort(origins);
    return origins;
  }

  Module& module_;
  Graph& graph_;
  const TrainingPasses& passes_;
  const KeptValues& kept_;
  std::unordered_map<ValueId, ValueId> again_;
  std::unordered_map<uint32_t, OriginId> origins_;
};

/// The values that the schedule, or a search for it, keeps. A limit without a search is taken as `all`.
KeptValues kept_values(const Module& module, const TrainingPasses& passes, const Env& env) {
  const RecomputeRequest& request = *env.schedule.train->recompute;
  if (!request.keep.empty()) return named_values(module, passes, env);
  if (!request.kept) return fewest_bytes_kept(module.graph, passes);
  KeptValues kept;
  for (const std::string& name : *request.kept)
    if (const ValueId v = module.graph.find_value(name)) kept.insert(v);
  return kept;
}

}  // namespace

void recompute(Module& module, const Env& env) {
  if (!env.schedule.train || !env.schedule.train->recompute) return;
  const RecomputeRequest& request = *env.schedule.train->recompute;
  const TrainingPasses passes(module);
  const KeptValues kept = kept_values(module, passes, env);
  if (!env.diags.ok()) return;
  const int64_t bytes_before = bytes_of(module.graph, values_across(module.graph, passes));
  const size_t ops_before = module.graph.op_count();
  set_apart(module, passes);
  AgainWriter(module, passes, kept).run();
  const size_t again = module.graph.op_count() - ops_before;
  if (again == 0 && !request.limit)
    env.diags.warning("recompute-nothing", request.loc,
                      "nothing is computed again: the backward pass reads only what is kept");
  const std::set<ValueId> across = values_across(module.graph, TrainingPasses(module));
  module.remarks.push_back(format(
      "recompute: {} ops are computed again; of the forward pass {} values of {} bytes are kept for the backward "
      "pass, in place of {} bytes",
      again, across.size(), bytes_of(module.graph, across), bytes_before));
}

}  // namespace weftc
