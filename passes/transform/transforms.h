// The steps of a schedule's `transform:` list, one function each. Every refusal names the rule, the nodes and a change
// that would make it legal (README.md).
#pragma once
#include <functional>
#include <map>
#include <set>

#include "ir/op_def.h"
#include "passes/pass.h"
#include "passes/select.h"
#include "passes/transform/region.h"

namespace weftc {

/// The state with which ops of a body run in chunks: the layouts of their values with the time axis.
struct ChunkTypes {
  std::vector<OpId> ops;             // in graph order
  std::map<ValueId, Layout> inside;  // of values made by the ops
  /// The layouts of operands from outside as each op reads them: one entry for each (op, input).
  std::map<std::pair<OpId, uint32_t>, Layout> operands;
  size_t typed = 0;     // how many ops were, in that order, before one was refused
  std::string refusal;  // "" when the body types without a reshard on the time axis (C2)
  OpId refused;         // the refused op; invalid: several are refused together
};
/// One instance of a step: the texts of its variables, its position, and how it will be cited.
struct StepContext {
  Module& module;
  Diags& diags;
  const SelectableNames& names;
  const Bindings& bindings;
  const Loc& loc;
  TransformId transform;
  const UncheckedRules* unchecked;  // Env::unchecked

  Graph& graph() const { return module.graph; }
  /// The ops of a selector in this instance; reports and returns no ops where it matches nothing.
  std::vector<OpId> select(const Selector& selector) const;
  /// The ops of several selectors, each once, in graph order, with the views and local slices between them, without the
  /// inputs and weights that a pattern also matches. Reports and returns no ops where nothing else is named.
  std::vector<OpId> select_all(const std::vector<Selector>& selectors) const;
  std::string name(const std::string& text) const { return substitute(text, bindings); }
  /// True if a name that a step is about to make is free; else reports at `loc` what has it.
  bool is_free(const std::string& made, const Loc& loc) const;
};

/// all-reduce -> reduce-scatter + all-gather.
void split_collective(const StepContext& step, const SplitStep& what);
/// The slices of its result's `dim` that the ranks of an all-reduce make when it is split; nothing if they do not fit.
std::optional<Layout> layout_of_slices(const Module& module, const Graph& graph, const Op& op, int dim);
struct Halves {
  OpId scatter, gather;
};
/// Puts a reduce-scatter to such slices and the all-gather of these in the place of an all-reduce, with these names.
Halves split_at(Graph& graph, OpId id, const Layout& layout, const std::vector<std::string>& names,
                TransformId transform);
/// Moves an all-gather after ops that can run on its slices, or all-reduces after linear ops.
void reorder_collective(const StepContext& step, const ReorderStep& what);
/// Makes one region, hence one kernel, of ops and of reductions and all-gathers around them.
void fuse_ops(const StepContext& step, const FuseStep& what);
/// The same for collectives alone, in as many kernels as `what.bucket` bytes fill.
void fuse_in_buckets(const StepContext& step, const FuseStep& what);
/// Whether one kernel can hold the planned region, and no other op stands between its ops.
bool can_fuse(const StepContext& step, const RegionPlan& plan);
/// Makes one kernel of these ops, with a name that is written at `name_loc`; reports why that is impossible.
void make_kernel(const StepContext& step, const std::vector<OpId>& ops, const std::string& name, const Loc& name_loc);
/// Runs ops in chunks of one dim, so that their parts on different streams overlap.
void overlap_ops(const StepContext& step, const OverlapStep& what);
/// Makes the graph one Chunk over micro-batches (`pipeline:`); in a training, the forward and backward pass.
void chunk_micro_batches(Module& module, const Schedule& schedule, Diags& diags);
/// Gives ops outside of the micro-batches of a training blocks that run once.
void settle_blocks(Module& module, const PipelineRequest& request);
/// The ops of a training that run in `count` micro-batches, which have to divide an input. Reports at `loc` why no op
/// can.
std::optional<ChunkTypes> type_training_in_micro_batches(const Module& module, int count, const Loc& loc, Diags& diags);
/// Makes forward and backward of a training step a Chunk over micro-batches, whose gradients are its sums
/// (`accumulate:`).
void accumulate_micro_batches(Module& module, const Schedule& schedule, Diags& diags);

/// Which neighbouring samples a micro-batch takes. OfInputs: within the ranks' slices of the inputs. OfAllPlaces:
/// within the slices of any value with as many rows, so that ranks of other places have a part of each micro-batch too.
enum class Spread { OfInputs, OfAllPlaces };
/// How micro-batches cut inputs: along dim 0, inside existing slices. States are not cut.
std::map<ValueId, AxisState> batch_seeds(const Module& module, int micro_batches, Spread spread = Spread::OfInputs);
using TypingOf = std::function<ChunkTypes(const std::map<ValueId, AxisState>& seeds)>;
/// The typing with the first spread that does not refuse it, else the first refusal; nothing where micro-batches cut no
/// input.
std::optional<ChunkTypes> type_by_spread(const Module& module, int micro_batches, const TypingOf& typing_of);
/// Reports why no input is cut: the batch is of run-time length, or not divisible.
void report_uncut(const Graph& graph, int micro_batches, const Loc& loc, Diags& diags);
/// Reports why ops cannot run in micro-batches, from the refusal of their typing, and their nodes.
void report_untyped(const Module& module, const ChunkTypes& typing, int count, const Loc& loc, Diags& diags);
/// True for an input whose next value is an output, and for its copies in other places.
bool is_state(const Module& module, ValueId input);
/// The inputs for which `is_one` holds, and all that is computed from them.
std::set<ValueId> values_of(const Module& module, const std::function<bool(ValueId input)>& is_one);

/// Types `ops` on the mesh with one more axis of size `chunks`. Values of `seeds` that come from outside arrive in
/// these states; those that the ops make are requested in them. Changes nothing.
ChunkTypes type_in_chunks(const Module& module, const Graph& graph, const std::vector<OpId>& ops,
                          const std::map<ValueId, AxisState>& seeds, int chunks,
                          const UncheckedRules* unchecked = nullptr);
/// Contracts typed ops into a Chunk op; the id of the op.
OpId make_chunk(Module& module, const ChunkTypes& typing, int chunks, const std::string& name, Mechanism mechanism,
                TransformId transform, const UncheckedRules* unchecked = nullptr);

}  // namespace weftc
