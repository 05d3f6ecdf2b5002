// Whether there is a pipeline schedule of one period: every block of micro-batch m starts at start + m * period.
#pragma once
#include <optional>

#include "passes/pipelining/problem.h"

namespace weftc {

/// A bound of work: a search gives up when nothing of it is left. It counts steps, not seconds, so that results are the
/// same on every machine.
struct PipelineBudget {
  uint64_t steps;
};

enum class PeriodAnswer { Found, Impossible, Unknown };

struct PeriodResult {
  PeriodAnswer answer;
  std::vector<int64_t> starts;  // Found: of the blocks of micro-batch 0, the first of them at 0
};

/// A constraint between blocks of different micro-batches: start[to] + distance * period >= start[from] + time[from].
struct RepeatedOrder {
  int from, to;
  int64_t distance;
};

/// Searches exhaustively, unless the budget ends first. Every schedule of a period is a modulo schedule (Rau, MICRO
/// 1994); its search is one over the order of each two blocks that share a device, as whole periods between them.
PeriodResult search_period(const PipelineProblem& problem, const std::vector<RepeatedOrder>& repeated, int64_t period,
                           PipelineBudget& budget);

}  // namespace weftc
