// How each named order is made, and its conditions on the stages.
#include "passes/pipelining/orders.h"

#include <algorithm>

#include "ir/base/text.h"
#include "passes/pipelining/list_order.h"
#include "passes/pipelining/place_orders.h"

namespace weftc {

namespace {

/// All forward passes of a stage, then of the next; all backward passes of the last stage, then of the one before. A
/// stage's Weight blocks wait until the stages before it have the values that they wait for.
std::vector<PipelineTurn> stage_by_stage(const StagedPipeline& pipeline, int micro_batches) {
  const std::vector<StageBlocks> stages = blocks_by_stage(pipeline);
  std::vector<PipelineTurn> turns;
  const auto run = [&](int block) {
    for (int m = 0; block >= 0 && m < micro_batches; ++m) turns.push_back({block, m});
  };
  const std::vector<int> sequence = stages_in_order(pipeline);
  for (const int stage : sequence) run(stages[as_index(stage)].forward);
  for (auto stage = sequence.rbegin(); stage != sequence.rend(); ++stage) {
    run(stages[as_index(*stage)].backward);
    run(stages[as_index(*stage)].weight);
  }
  return turns;
}

enum class SplitPasses { Some, All };

/// The reason why `wanted` passes are not split, or "".
std::string fault_of_split(const StagedPipeline& pipeline, SplitPasses wanted, const StageName& name) {
  const auto has = [&](BlockKind kind) { return std::count(pipeline.kind.begin(), pipeline.kind.end(), kind) > 0; };
  if (!has(BlockKind::Backward)) return "there are only forward passes";
  if (!has(BlockKind::Weight))
    return "no backward pass is split, since none has a part that other stages wait for and a part that they do not";
  const std::vector<StageBlocks> stages = blocks_by_stage(pipeline);
  for (int stage = 0; wanted == SplitPasses::All && stage < static_cast<int>(stages.size()); ++stage) {
    const StageBlocks& blocks = stages[as_index(stage)];
    if (blocks.backward < 0) return format("stage '{}' has no backward pass", name(stage));
    if (blocks.weight < 0)
      return format(
          "the backward pass of stage '{}' is not split, since it is not in parts of which other stages wait for one "
          "alone",
          name(stage));
  }
  return "";
}

OrderedTurns does_not_fit(PipelineOrder order, std::string_view need, const std::string& fault) {
  return {{}, format("{} needs {}: {}", name_of(order), need, fault)};
}

/// An order in closed form, of stages that are placed as it needs.
using PlaceOrder = PlaceTurns (*)(const StagedPipeline&, const Placement&, int micro_batches);

OrderedTurns placed(const StagedPipeline& unit, PipelineOrder order, int micro_batches, std::string_view need,
                    const Placement& placement, PlaceOrder turns_of_places) {
  if (!placement.refusal.empty()) return does_not_fit(order, need, placement.refusal);
  OrderedTurns result = {merged(unit.problem, turns_of_places(unit, placement, micro_batches), micro_batches), ""};
  if (result.turns.empty() && micro_batches > 0)
    return does_not_fit(order, need, "blocks wait for others in another way");
  return result;
}

OrderedTurns interleaved_order(const StagedPipeline& unit, int micro_batches, const StageName& name) {
  constexpr std::string_view kNeed =
      "one chain of stages that goes through its places in turn, at least twice (places 0 1 2 0 1 2)";
  const Placement placement = round_robin_placement(unit, name);
  const int places = static_cast<int>(placement.stages.size());
  if (placement.refusal.empty() && micro_batches % places != 0)
    return does_not_fit(PipelineOrder::Interleaved, "a multiple of as many micro-batches as places",
                        format("there are {} micro-batches and {} places", micro_batches, places));
  return placed(unit, PipelineOrder::Interleaved, micro_batches, kNeed, placement, interleaved_turns);
}

OrderedTurns zero_bubble_h1_order(const StagedPipeline& unit, int micro_batches, const StageName& name) {
  constexpr std::string_view kNeed = "backward passes that are split into gradients of activations and of weights";
  if (const std::string fault = fault_of_split(unit, SplitPasses::Some, name); !fault.empty())
    return does_not_fit(PipelineOrder::ZbH1, kNeed, fault);
  return {list_order(unit, zero_bubble_h1(unit, depths_of(unit)), micro_batches), ""};
}

OrderedTurns zero_bubble_v_order(const StagedPipeline& unit, int micro_batches, const StageName& name) {
  constexpr std::string_view kNeed =
      "one chain of stages that goes through its places and back (places 0 1 2 2 1 0), with split backward passes";
  if (const std::string fault = fault_of_split(unit, SplitPasses::All, name); !fault.empty())
    return does_not_fit(PipelineOrder::ZbV, kNeed, fault);
  return placed(unit, PipelineOrder::ZbV, micro_batches, kNeed, v_placement(unit, name), zero_bubble_v_turns);
}

/// 1F1B in either direction (Li and Hoefler, SC 2021). The two of a place would have one micro-batch more in flight
/// than there are places; the one that has more does without it, which costs no time.
OrderedTurns chimera_order(const StagedPipeline& unit, int micro_batches, const StageName& name) {
  constexpr std::string_view kNeed =
      "two chains of stages that go through the same places in opposite directions (places 0 1 2 and 2 1 0)";
  const Placement placement = opposite_placement(unit, name);
  if (!placement.refusal.empty()) return does_not_fit(PipelineOrder::Chimera, kNeed, placement.refusal);
  std::vector<int> in_flight = depths_of(unit);
  const int places = static_cast<int>(placement.stages.size());
  for (int& most : in_flight)
    if (2 * most > places + 1) --most;
  return {list_order(unit, one_f_one_b(in_flight), micro_batches), ""};
}

OrderedTurns dual_pipe_order(const StagedPipeline& unit, int micro_batches, const StageName& name) {
  constexpr std::string_view kNeed =
      "two chains of stages with split backward passes that go through the same even number of places in opposite "
      "directions (places 0 1 2 3 and 3 2 1 0)";
  if (const std::string fault = fault_of_split(unit, SplitPasses::All, name); !fault.empty())
    return does_not_fit(PipelineOrder::DualPipe, kNeed, fault);
  const Placement placement = opposite_placement(unit, name);
  if (placement.refusal.empty() && placement.stages.size() % 2 != 0)
    return does_not_fit(PipelineOrder::DualPipe, kNeed, format("there are {} places", placement.stages.size()));
  return placed(unit, PipelineOrder::DualPipe, micro_batches, kNeed, placement, dual_pipe_turns);
}

}  // namespace

OrderedTurns named_order(const StagedPipeline& pipeline, PipelineOrder order, int micro_batches,
                         const StageName& name) {
  const StagedPipeline unit = with_unit_times(pipeline);
  switch (order) {
    case PipelineOrder::GPipe:
      return {stage_by_stage(unit, micro_batches), ""};
    case PipelineOrder::OneFOneB:
      return {list_order(unit, one_f_one_b(depths_of(unit)), micro_batches), ""};
    case PipelineOrder::Interleaved:
      return interleaved_order(unit, micro_batches, name);
    case PipelineOrder::ZbH1:
      return zero_bubble_h1_order(unit, micro_batches, name);
    case PipelineOrder::ZbV:
      return zero_bubble_v_order(unit, micro_batches, name);
    case PipelineOrder::Chimera:
      return chimera_order(unit, micro_batches, name);
    case PipelineOrder::DualPipe:
      return dual_pipe_order(unit, micro_batches, name);
  }
  return {};
}

}  // namespace weftc
