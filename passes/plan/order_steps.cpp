// The step order-steps of planning: streams, signals and waits.
//
// A Plan without a pipeline is ordered at once. In a pipeline it depends on the order of the stages whether transfers
// that share streams and buffers wait for each other in a circle. More independence costs streams and memory, so the
// cheapest of three orders that does not deadlock is searched for:
//
//   1. one stream for all sends and one for all recvs     2 streams, the fewest instances
//   2. a pair of streams for each pair of stages          more streams, the same memory
//   3. and an instance for each micro-batch               the most memory: no transfer waits for a reader
//
// Each candidate is written onto a copy of the unordered Plan and expanded into events (plan_events.h), which form a
// cycle if and only if the candidate deadlocks. Two stages that read each other may do so even in the third order.
#include <algorithm>

#include "ir/plan_events.h"
#include "passes/plan/plan_parts.h"

namespace weftc {

namespace {

bool deadlocks(const Plan& plan) {
  const PlanEvents events(plan, false);
  return static_cast<int>(events.order.size()) < events.nodes;
}

/// The block of the step that moves a transfer's data: its send, or its recv.
template <class Kind>
size_t block_of(const Plan& plan, int transfer) {
  const auto moves = [&](const Step& step) {
    const auto* what = std::get_if<Kind>(&step.what);
    return what && what->transfer == transfer;
  };
  size_t found = 0;
  for (size_t b = 0; b < plan.blocks.size(); ++b)
    if (std::any_of(plan.blocks[b].steps.begin(), plan.blocks[b].steps.end(), moves)) found = b;
  return found;
}

/// Two blocks that send to each other, perhaps through others; nothing if transfers lead forward only.
std::optional<std::pair<size_t, size_t>> mutual_blocks(const Plan& plan) {
  const size_t n = plan.blocks.size();
  std::vector<std::vector<bool>> leads(n, std::vector<bool>(n, false));
  for (int t = 0; t < static_cast<int>(plan.transfers.size()); ++t)
    leads[block_of<SendStep>(plan, t)][block_of<RecvStep>(plan, t)] = true;
  for (size_t via = 0; via < n; ++via)
    for (size_t a = 0; a < n; ++a)
      for (size_t b = 0; b < n; ++b)
        if (leads[a][via] && leads[via][b]) leads[a][b] = true;
  for (size_t a = 0; a < n; ++a)
    for (size_t b = a + 1; b < n; ++b)
      if (leads[a][b] && leads[b][a]) return std::make_pair(a, b);
  return {};
}

void write_order(PlanDraft& draft, Independence independence) {
  order_beside(draft.plan);
  order_loops(draft.plan);
  order_transfers(draft.plan, independence);
  enter_kernels(draft.plan, draft.diags);
}

/// Reports a deadlock that follows from the order of the stages. Any other deadlock is left to the proof, which names
/// its steps.
void report_deadlock(const PlanDraft& draft) {
  const auto mutual = mutual_blocks(draft.plan);
  if (!mutual) return;
  const Block &a = draft.plan.blocks[mutual->first], &b = draft.plan.blocks[mutual->second];
  const bool share_rank = std::ranges::any_of(draft.plan.places[a.place.index].ranks,
                                              [&](int rank) { return draft.plan.places[b.place.index].holds(rank); });
  draft.diags.error("pipeline-deadlock", draft.module.pipeline->loc,
                    "the stages '{}' and '{}' read each other's results, and in this order their ranks would wait for "
                    "ever: {}what reads the other stage's result must stand in a stage of its own",
                    a.name, b.name,
                    share_rank ? ""
                               : "both must run their passes and micro-batches in one sequence, as every order with a "
                                 "name has them, or ");
}

}  // namespace

void order_steps(PlanDraft& draft) {
  if (draft.plan.transfers.empty()) return write_order(draft, Independence::Shared);
  const Plan unordered = draft.plan;
  for (const Independence cheapest :
       {Independence::Shared, Independence::PairOfBlocks, Independence::AllMicroBatches}) {
    draft.plan = unordered;
    write_order(draft, cheapest);
    if (!deadlocks(draft.plan)) return;
  }
  report_deadlock(draft);
}

}  // namespace weftc
