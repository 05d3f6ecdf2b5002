// accumulate: runs forward and backward for each micro-batch in turn and adds up gradients; the optimizer runs once
// after them (C6).
//
//   %dw = MatMul(%x, %dy)                      %dw = Chunk(%x, ...) {k = 4} { ... %dw = MatMul(%x, %dy) : P(sum) }
//   %dw.sum = AllReduce(%dw)             ->    %dw.sum = AllReduce(%dw)
//   %w.next = Sub(%w, %dw.sum)                 %w.next = Sub(%w, %dw.sum)
//
// Which ops are in the Chunk is found by typing all of them. An op that is not linear in a sum over the micro-batches
// comes after the Chunk, with all that is computed from it. Values computed from inputs alone come before it, such as
// the number of valid labels, which divides the gradient of each micro-batch. So a step is that of the whole batch,
// except for rounding.
#include <algorithm>
#include <set>
#include <tuple>

#include "ir/base/contains.h"
#include "passes/transform/region.h"
#include "passes/transform/transforms.h"
#include "passes/update_ops.h"

namespace weftc {

namespace {

using Kind = AxisState::Kind;

class MicroBatchOps {
 public:
  MicroBatchOps(const Module& module, std::map<ValueId, AxisState> seeds, int count)
      : module_(module),
        graph_(module.graph),
        seeds_(std::move(seeds)),
        count_(count),
        of_states_(values_of(module, [&](ValueId input) { return is_state(module, input); })),
        of_batch_(values_of(module, [&](ValueId input) { return seeds_.contains(input); })) {
    std::set<OpId> late;
    for (OpId id : graph_.order()) {
      if (is_late(id, late)) late.insert(id);
      if (updates(id, late)) outside_.insert(id);
    }
  }

  /// The ops typed in micro-batches; with a refusal where they cannot be.
  ChunkTypes find() {
    ChunkTypes typing = find_ops();
    if (!typing.refusal.empty() && sum_) blame_sum(typing);
    return typing;
  }

 private:
  ChunkTypes find_ops() {
    ChunkTypes typing = type();
    while (!typing.refusal.empty() && typing.refused) {
      if (!keep_counts_in_front(typing) && !keep_constant_in_front(typing)) {
        reasons_.emplace(typing.refused, typing.refusal);
        note_sum(typing);
        if (!reads_sums(typing) && needs_whole_.empty()) needs_whole_ = typing.refusal, whole_ = typing.refused;
        keep_after(typing.refused);
      }
      typing = type();
    }
    if (!typing.refusal.empty()) {
      if (!needs_whole_.empty()) typing.refusal = needs_whole_, typing.refused = whole_;
      return typing;
    }
    keep_out_what_needs_no_batch(typing);
    typing = type();
    if (typing.refusal.empty() && typing.ops.empty())
      explain_nothing(typing);
    else if (typing.refusal.empty())
      explain_what_is_left(typing);
    return typing;
  }

  /// True for derivatives and for all that is computed from them.
  bool is_late(OpId id, const std::set<OpId>& late) const {
    const std::vector<ValueId>& operands = graph_.op(id).inputs;
    const bool is_derivative = is_of(Phase::Backward, id) && !is_of(Phase::Forward, id);
    return is_derivative ||
           std::ranges::any_of(operands, [&](ValueId v) { return v && late.contains(graph_.producer(v)); });
  }

  /// True for ops of the optimizer, and for blocks of a pipeline that run after the micro-batches: they read sums over
  /// all of them. This need not be found op by op. Running statistics are not among them, because they are sums of
  /// values of each micro-batch.
  bool updates(OpId id, const std::set<OpId>& late) const {
    const Op& op = graph_.op(id);
    const bool is_statistic =
        !late.contains(id) && std::ranges::any_of(op.inputs, [&](ValueId v) { return v && of_batch_.contains(v); });
    if (op.block && module_.pipeline->blocks[static_cast<size_t>(*op.block)].turn == Turn::After) return true;
    return !is_statistic && is_of_update(module_, op);
  }

  bool is_inside(OpId id) const { return inside_.contains(id); }

  /// Types all ops that compute and are not kept outside, with the draws and index patterns that nothing else reads.
  ChunkTypes type() {
    inside_.clear();
    std::vector<OpId> ops;
    for (OpId id : graph_.order())
      if (category(graph_.op(id)) != Category::Source && !outside_.contains(id)) inside_.insert(id);
    for (OpId id : graph_.order()) {
      if (category(graph_.op(id)) == Category::Source && is_made_inside(id)) inside_.insert(id);
      if (is_inside(id)) ops.push_back(id);
    }
    return type_in_chunks(module_, graph_, ops, seeds_, count_);
  }

  bool is_made_inside(OpId id) const {
    const Op& op = graph_.op(id);
    return op.kind != OpKind::Input && op.kind != OpKind::Constant && !readers_of(op).outside;
  }

  struct Readers {
    bool inside = false, outside = false;  // an output of the model is read outside
  };
  Readers readers_of(const Op& op) const {
    Readers readers;
    for (ValueId v : op.outputs)
      for (const Use& use : graph_.value(v).uses)
        (use.op && is_inside(use.op) ? readers.inside : readers.outside) = true;
    return readers;
  }

  int time_axis(const Op& op) const { return static_cast<int>(module_.mesh(graph_, op.place).size()); }

  AxisState::Kind state_of(const ChunkTypes& typing, ValueId v) const {
    const auto at = typing.inside.find(v);
    return at == typing.inside.end() ? Kind::R : at->second[time_axis(graph_.producer_op(v))].kind;
  }

  bool reads_slices(const ChunkTypes& typing, OpId id) const {
    const Op& op = graph_.op(id);
    for (uint32_t i = 0; i < op.inputs.size(); ++i) {
      const auto operand = typing.operands.find({id, i});
      if (operand != typing.operands.end() && operand->second[time_axis(op)].is(Kind::S)) return true;
    }
    return false;
  }

  bool reads_sums(const ChunkTypes& typing) const {
    const std::vector<ValueId>& operands = graph_.op(typing.refused).inputs;
    return std::any_of(operands.begin(), operands.end(),
                       [&](ValueId v) { return v && state_of(typing, v) == Kind::P; });
  }

  bool is_of(Phase phase, OpId id) const {
    return std::ranges::any_of(graph_.op(id).origins,
                               [&](OriginId o) { return module_.origins[o.index].phase == phase; });
  }

  /// The sum over the batch that a partial sum comes from.
  ValueId sum_after(const ChunkTypes& typing, ValueId v) const {
    const std::vector<ValueId>& operands = graph_.producer_op(v).inputs;
    const auto next = std::ranges::find_if(
        operands, [&](ValueId operand) { return operand && state_of(typing, operand) == Kind::P; });
    return next == operands.end() ? v : sum_after(typing, *next);
  }

  /// A derivative in each sample by which a sum of the forward pass is multiplied: the loss is not linear in that sum.
  void note_sum(const ChunkTypes& typing) {
    if (sum_ || !is_of(Phase::Backward, typing.refused)) return;
    for (const ValueId v : graph_.op(typing.refused).inputs) {
      if (!v || state_of(typing, v) != Kind::P) continue;
      const ValueId sum = sum_after(typing, v);
      if (is_of(Phase::Forward, graph_.producer(sum))) sum_ = sum;
    }
  }

  void blame_sum(ChunkTypes& typing) const {
    typing.refused = graph_.producer(sum_);
    typing.refusal = format(
        "the loss is not linear in '{}', a mean or sum over the batch (as in a product of two such "
        "means), so that it is no sum over micro-batches",
        graph_.value(sum_).name);
  }

  /// If the refused op reads sums over the micro-batches that no parameter takes part in, keeps those outside, made
  /// from the whole batch. These are the sums in which it is not linear, such as the number of labels by which a sum is
  /// divided, else all.
  bool keep_counts_in_front(const ChunkTypes& typing) {
    const Op& op = graph_.op(typing.refused);
    const std::vector<std::vector<int>> linear = linear_groups(OpView(module_, graph_, op));
    const auto is_linear = [&](int operand) {
      return std::ranges::any_of(linear, [&](const auto& group) { return contains(group, operand); });
    };
    std::vector<ValueId> sums, counts;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const ValueId v = op.inputs[i];
      if (!v || state_of(typing, v) != Kind::P || of_states_.contains(v)) continue;
      sums.push_back(v);
      if (!is_linear(static_cast<int>(i))) counts.push_back(v);
    }
    for (const ValueId v : counts.empty() ? sums : counts) keep_in_front(graph_.producer(v));
    return !sums.empty();
  }

  /// Keeps a value outside that is the same in all micro-batches but cannot be made in slices: a constant that is
  /// broadcast over the batch.
  bool keep_constant_in_front(const ChunkTypes& typing) {
    const std::vector<ValueId>& operands = graph_.op(typing.refused).inputs;
    const bool is_constant = std::all_of(operands.begin(), operands.end(), [&](ValueId v) {
      return !v || (is_inside(graph_.producer(v)) ? state_of(typing, v) == Kind::R : !of_batch_.contains(v));
    });
    if (is_constant) keep_in_front(typing.refused);
    return is_constant;
  }

  void keep_in_front(OpId id) {
    if (!outside_.insert(id).second) return;
    for (ValueId v : graph_.op(id).inputs)
      if (v) keep_in_front(graph_.producer(v));
  }

  void keep_after(OpId id) {
    if (!outside_.insert(id).second) return;
    for (ValueId v : graph_.op(id).outputs)
      for (const Use& use : graph_.value(v).uses)
        if (use.op) keep_after(use.op);
  }

  /// Runs ops that are linear in sums once, after the Chunk; runs ops whose results are the same in all micro-batches
  /// and are read outside too before it.
  void keep_out_what_needs_no_batch(const ChunkTypes& typing) {
    std::vector<OpId> ops = typing.ops;
    std::reverse(ops.begin(), ops.end());
    for (OpId id : ops)
      if (!reads_slices(typing, id) && !readers_of(graph_.op(id)).inside) inside_.erase(id), outside_.insert(id);
    for (OpId id : typing.ops) {
      const Op& op = graph_.op(id);
      const bool is_same =
          std::all_of(op.outputs.begin(), op.outputs.end(), [&](ValueId v) { return state_of(typing, v) == Kind::R; });
      if (is_inside(id) && is_same && readers_of(op).outside) keep_in_front(id);
    }
    for (OpId id : typing.ops)  // a value that is made once is sent once
      if (graph_.op(id).kind == OpKind::Transfer && outside_.contains(graph_.producer(graph_.op(id).inputs[0])))
        keep_in_front(id);
  }

  /// Why nothing is left to run in micro-batches; no refusal where no input is cut.
  void explain_nothing(ChunkTypes& typing) const {
    if (!needs_whole_.empty())
      typing.refusal = needs_whole_, typing.refused = whole_;
    else if (!reasons_.empty())
      std::tie(typing.refused, typing.refusal) = *reasons_.begin();
  }

  /// Parts of a value may leave as an output of the model; read by an op they would be all of the batch again: a
  /// refusal.
  void explain_what_is_left(ChunkTypes& typing) const {
    for (ValueId v : plan_region(graph_, typing.ops).results) {
      if (state_of(typing, v) != Kind::S) continue;
      for (const Use& use : graph_.value(v).uses) {
        if (!use.op || is_inside(use.op)) continue;
        const auto reason = reasons_.find(use.op);
        typing.refused = use.op;
        typing.refusal = reason != reasons_.end() ? reason->second
                                                  : format("'{}' reads '{}' of the whole batch", graph_.op(use.op).name,
                                                           graph_.value(v).name);
        return;
      }
    }
  }

  const Module& module_;
  const Graph& graph_;
  const std::map<ValueId, AxisState> seeds_;
  const int count_;
  const std::set<ValueId> of_states_, of_batch_;  // values that depend on parameters, or on inputs that are cut
  std::set<OpId> inside_, outside_;
  std::map<OpId, std::string> reasons_;  // why an op cannot run in micro-batches
  std::string needs_whole_;              // the first of them that is not about a sum
  OpId whole_;                           // the op of that reason
  ValueId sum_;                          // a sum over the batch in which the loss is not linear
};

/// The batch of a training: the first dimension that most inputs have, of several the first input's.
int64_t batch_of(const Module& module) {
  std::map<int64_t, int> numbers;
  int64_t batch = 0;
  for (const ValueId v : module.graph.inputs()) {
    const Shape& shape = module.graph.type(v).shape;
    if (shape.empty() || is_state(module, v)) continue;
    ++numbers[shape[0].bound];
    if (batch == 0) batch = shape[0].bound;
  }
  for (const auto& [extent, number] : numbers)
    if (number > numbers[batch]) batch = extent;
  return batch;
}

/// True for an input that a pointwise op broadcasts to more dimensions, where its rows meet another dimension than the
/// first: it has as many columns as the batch has rows.
bool is_spread(const Module& module, ValueId input) {
  const Graph& graph = module.graph;
  return std::ranges::any_of(graph.value(input).uses, [&](const Use& use) {
    return use.op && category(graph.op(use.op)) == Category::Pointwise &&
           graph.type(graph.result(use.op)).ndim() > graph.type(input).ndim();
  });
}

/// The ops that run in micro-batches. Where all inputs with as many rows as the batch cannot be cut, those may not have
/// it that look like that: they are the same in all micro-batches.
ChunkTypes find_micro_batches(const Module& module, std::map<ValueId, AxisState> seeds, int count) {
  ChunkTypes typing = MicroBatchOps(module, seeds, count).find();
  const auto dropped = std::erase_if(seeds, [&](const auto& seed) { return is_spread(module, seed.first); });
  if (typing.refusal.empty() || dropped == 0 || seeds.empty()) return typing;
  ChunkTypes other = MicroBatchOps(module, seeds, count).find();
  return other.refusal.empty() ? other : typing;
}

bool has_rows(const Module& module, ValueId input, int64_t rows) {
  const Shape& shape = module.graph.type(input).shape;
  return !shape.empty() && shape[0].bound == rows;
}

/// An input that has the batch and is not cut where others are: the micro-batches do not divide the rows that a rank
/// has of it.
ValueId uncut_input(const Module& module, int64_t batch, int count) {
  const std::map<ValueId, AxisState> seeds = batch_seeds(module, count);
  ValueId uncut;
  bool is_any_cut = false;
  for (const ValueId v : module.graph.inputs()) {
    if (!has_rows(module, v, batch) || is_state(module, v)) continue;
    if (seeds.contains(v))
      is_any_cut = true;
    else if (!uncut)
      uncut = v;
  }
  return is_any_cut ? uncut : ValueId{};
}

}  // namespace

std::optional<ChunkTypes> type_training_in_micro_batches(const Module& module, int count, const Loc& loc,
                                                         Diags& diags) {
  const int64_t batch = batch_of(module);
  if (const ValueId uncut = uncut_input(module, batch, count)) {
    diags.error("micro-batches-rows", loc, "{} micro-batches do not divide the rows of '{}' that a rank has", count,
                printable(module.graph.value(uncut).name));
    return {};
  }
  std::optional<ChunkTypes> typing = type_by_spread(module, count, [&](std::map<ValueId, AxisState> seeds) {
    std::erase_if(seeds, [&](const auto& seed) { return !has_rows(module, seed.first, batch); });
    return seeds.empty() ? ChunkTypes() : find_micro_batches(module, std::move(seeds), count);
  });
  if (typing && !typing->refusal.empty())
    report_untyped(module, *typing, count, loc, diags);
  else if (!typing || typing->ops.empty())
    report_uncut(module.graph, count, loc, diags);
  if (!diags.ok()) return {};
  return typing;
}

void accumulate_micro_batches(Module& module, const Schedule& schedule, Diags& diags) {
  const int count = schedule.train->accumulate;
  const Loc& loc = schedule.train->accumulate_loc;
  const std::optional<ChunkTypes> typing = type_training_in_micro_batches(module, count, loc, diags);
  if (!typing) return;
  module.transforms.push_back({format("accumulate over {} micro-batches", count), loc});
  const TransformId transform{static_cast<uint32_t>(module.transforms.size() - 1)};
  const OpId chunk = make_chunk(module, *typing, count, "micro_batches", Mechanism::Streams, transform);
  module.graph.edit(chunk).attrs.push_back({"in_turn", int64_t{1}});
}

}  // namespace weftc
