// Named orders are candidates too: a searched order is never worse than one that the user could have named.
#include "passes/pipelining/searched_order.h"

#include <algorithm>

namespace weftc {

namespace {

/// By the time for one micro-batch, then by memory.
bool is_better(const PeriodicSchedule& a, const PeriodicSchedule& b) {
  const int64_t of_a = a.period * b.copies, of_b = b.period * a.copies;
  return of_a != of_b ? of_a < of_b : a.memory() < b.memory();
}

PeriodicSchedule best_period(const PipelineProblem& problem, int most_copies, uint64_t steps) {
  PeriodicSchedule best;
  for (int copies = 1; copies <= most_copies; ++copies) {
    PeriodicSchedule found = find_periodic_schedule(problem, copies, steps == 0 ? usual_steps(problem, copies) : steps);
    if (copies == 1 || is_better(found, best)) best = std::move(found);
  }
  return best;
}

bool keeps_limits(const PipelineProblem& problem, const std::vector<int64_t>& peaks) {
  for (size_t device = 0; device < peaks.size(); ++device)
    if (peaks[device] > problem.limits[device]) return false;
  return true;
}

/// By length, then by the highest peak.
bool is_better(const OrderTimes& times, const SearchedOrder& than) {
  if (times.length != than.length) return times.length < than.length;
  return *std::max_element(times.peaks.begin(), times.peaks.end()) <
         *std::max_element(than.peaks.begin(), than.peaks.end());
}

void try_named_orders(const StagedPipeline& pipeline, const PipelineProblem& problem, int micro_batches,
                      SearchedOrder& best) {
  for (const PipelineOrder order : kPipelineOrders) {
    OrderedTurns named = named_order(pipeline, order, micro_batches);
    if (!named.refusal.empty()) continue;
    OrderTimes times = times_of(problem, with_transfer_turns(pipeline, named.turns), micro_batches);
    if (!is_better(times, best) || !keeps_limits(problem, times.peaks)) continue;
    best.turns = std::move(named.turns);
    best.length = times.length;
    best.peaks = std::move(times.peaks);
    best.named = order;
  }
}

}  // namespace

SearchedOrder searched_order(const StagedPipeline& pipeline, int micro_batches, int periods, uint64_t steps) {
  SearchedOrder result;
  const PipelineProblem problem = with_transfers(pipeline);
  result.faults = faults_of(problem);
  if (!result.faults.empty()) return result;
  result.periodic = best_period(problem, std::clamp(micro_batches, 1, std::max(periods, 1)), steps);
  const Makespan makespan = find_makespan(problem, result.periodic, micro_batches);
  result.turns = turns_of(problem, makespan.starts);
  result.least = makespan.least;
  OrderTimes times = times_of(problem, result.turns, micro_batches);
  result.length = times.length;
  result.peaks = std::move(times.peaks);
  try_named_orders(pipeline, problem, micro_batches, result);
  const int blocks = static_cast<int>(pipeline.problem.blocks.size());
  std::erase_if(result.turns, [&](const PipelineTurn& turn) { return turn.block >= blocks; });
  result.peaks.resize(pipeline.problem.limits.size());
  return result;
}

}  // namespace weftc
