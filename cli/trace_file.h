// Traces that executables write with --trace: what was measured, as timelines.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/diag.h"
#include "passes/cost/timeline.h"
#include "passes/pipelining/order_picture.h"

namespace weftc {

/// Steps as they ran on all ranks, over several iterations.
struct Trace {
  struct Span {
    double begin, end;  // the first begin and the last end of any step
  };
  /// Of which block of a pipeline a step is, and for which micro-batch.
  struct Turn {
    int block = -1;  // -1: there is no pipeline
    int micro_batch = 0;
  };
  Timeline all;             // every iteration, one behind the other; seconds from the first begin on
  std::vector<int> of_box;  // the iteration of each box
  std::vector<Turn> turns;  // of each box
  std::vector<PictureBlock> blocks;
  std::map<int, Span> iterations;
};

/// Reads one run's traces, each rank in one of the files. A step that holds others is left out: its time is theirs.
std::optional<Trace> read_traces(const std::vector<std::string>& files, Diags& diags);
/// The iteration of which as many are shorter as are longer; the shorter of two.
int median_iteration(const Trace& trace);
/// One iteration, its first begin at 0.
Timeline iteration_of(const Trace& trace, int number);

}  // namespace weftc
