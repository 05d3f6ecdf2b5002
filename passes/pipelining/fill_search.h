// The makespan of a number of micro-batches: a search that starts blocks in the order of time.
#pragma once
#include "passes/pipelining/problem.h"

namespace weftc {

/// starts[m][b]: of block b of micro-batch m.
using PipelineStarts = std::vector<std::vector<int64_t>>;

struct FillResult {
  PipelineStarts starts;     // empty: nothing shorter than `below` was found
  bool is_complete = false;  // nothing was left out: no schedule is shorter than the one found, or than `below`
};

/// The preference between partial schedules of one bound.
enum class FillPreference { EarlyDevices, FewIdle };

/// A schedule of `micro_batches` that ends before `below`, by branch and bound, level by level. A level has all partial
/// schedules with one number of started blocks. At most `width` of a level are kept, those with the lowest bounds.
FillResult search_fill(const PipelineProblem& problem, int micro_batches, int64_t below, FillPreference preference,
                       size_t width);

/// A lower bound on the length of any schedule of `micro_batches`. On each device, the blocks that start from some
/// moment on take their time after it, plus the time of what follows until the end. Nothing runs beside a block that
/// uses every device, so the other blocks take no less time together than they would alone.
int64_t least_makespan(const PipelineProblem& problem, int micro_batches);

}  // namespace weftc
