// A schedule and the whole compiler's prediction for it: after fusion and overlap, on all ranks of a machine, with the
// memory of its Plan.
#pragma once
#include <string>
#include <vector>

#include "cli/compilation.h"
#include "cli/options.h"
#include "cli/plan/plan_report.h"
#include "passes/sharding/plan_sharding.h"

namespace weftc {

struct PredictedSchedule {
  std::string what;     // "tp 2; 4 stages, 8 micro-batches, 1f1b"
  std::string text;     // YAML
  double seconds = 0;   // of an invocation
  int64_t memory = 0;   // bytes of the fullest rank
  int64_t lacking = 0;  // bytes that the machine's ranks lack, before any recomputation
  std::string refused;  // why there is no such program, such as "[pipeline-rows]" or "too little memory"; or ""
  TimeParts time = {};  // its parts
  std::vector<ExchangeRow> exchanges = {};   // of the rank that sends most
  std::optional<ShardingPlan> layouts = {};  // of each stage; of the largest if stages are unequal
  std::vector<Mesh> stages = {};             // their meshes; none: one stage of all ranks

  bool is_better_than(const PredictedSchedule& other) const {
    return refused.empty() && (!other.refused.empty() || seconds < other.seconds);
  }
};

/// Compiles a schedule from its text up to the proved Plan, and predicts its timeline. `before`: a compilation that
/// stopped before the transforms, which is continued (cli/compile.h).
PredictedSchedule predict(const Options& options, std::string what, std::string text,
                          const Compilation* before = nullptr);
/// The same with a line of progress. If a training's values exceed a rank's memory, as many as necessary are
/// recomputed, unless the schedule itself specifies recomputation.
PredictedSchedule predict_aloud(const Options& options, std::string what, std::string text);

/// The fastest first, those that cannot run last.
void sort_schedules(std::vector<PredictedSchedule>& schedules);
/// The schedules, the fastest first, with the margin of each to it.
std::string schedule_table(std::vector<PredictedSchedule> schedules);

}  // namespace weftc
