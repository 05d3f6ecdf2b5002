// Reads traces that executables write with --trace, as timelines.
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
  /// The block of a pipeline to which a step belongs, and its micro-batch.
  struct Turn {
    int block = -1;  // -1: no pipeline
    int micro_batch = 0;
  };
  Timeline all;             // all iterations in sequence; seconds from the first begin on
  std::vector<int> of_box;  // the iteration of each box
  std::vector<Turn> turns;  // of each box
  std::vector<PictureBlock> blocks;
  std::map<int, Span> iterations;
};

/// Reads one run's traces, each rank in one of the files. Steps that contain others are left out, since the inner steps
/// have their time.
std::optional<Trace> read_traces(const std::vector<std::string>& files, Diags& diags);
/// The iteration of median length; of two, the shorter.
int median_iteration(const Trace& trace);
/// One iteration, its first begin at 0.
Timeline iteration_of(const Trace& trace, int number);

}  // namespace weftc
