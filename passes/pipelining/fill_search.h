// The makespan of a number of micro-batches: a search that starts blocks in the order of time.
#pragma once
#include "passes/pipelining/problem.h"

namespace weftc {

/// starts[m][b]: of block b of micro-batch m.
using PipelineStarts = std::vector<std::vector<int64_t>>;

struct FillResult {
  PipelineStarts starts;     // empty: nothing shorter than `below` was found
  bool is_complete = false;  // nothing was left out: there is nothing shorter than what was found, or than `below`
};

/// What decides between partial schedules of one bound.
enum class FillPreference { EarlyDevices, FewIdle };

/// A schedule of `micro_batches` that ends before `below`, by branch and bound, level by level: a level has all partial
/// schedules with one number of started blocks. No more than `width` of a level are kept, those with the lowest bounds.
FillResult search_fill(const PipelineProblem& problem, int micro_batches, int64_t below, FillPreference preference,
                       size_t width);

/// No schedule of `micro_batches` is shorter. On each device, what starts from some moment on takes its time after
/// that moment, and what is behind it until the end. Nothing runs beside a block that uses every device, so that the
/// other blocks take no less time together than they would alone.
int64_t least_makespan(const PipelineProblem& problem, int micro_batches);

}  // namespace weftc
