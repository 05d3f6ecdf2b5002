// A timeline: what each stream of each rank runs, and when. Predicted from a Plan here, read from traces by the command
// line (cli/trace_file.h); printed by cli/timeline_text.h and cli/timeline_page.h.
#pragma once
#include <string>
#include <vector>

#include "passes/cost/cost_model.h"

namespace weftc {

/// A stream of a rank.
struct TimelineLane {
  int rank = 0;
  std::string stream;
};

/// The description of a step, however often it runs. Texts are as the user wrote them: not printable yet.
struct TimelineStep {
  std::string name;
  std::string what;       // "launch h_c_fc", "AllReduce sum over tp"; "" in a trace
  std::string nodes;      // of the model
  std::string transform;  // of the schedule
  std::string where;      // "s.yaml:9:5"
  bool communicates = false;
  bool is_counted = false;  // whether `cost` is known
  StepCost cost;            // of one run on the fullest rank
};

/// One run of a step.
struct TimelineBox {
  int lane = 0, step = 0;
  double ready = 0;  // seconds: when its lane was free for it, and it waited
  double begin = 0, end = 0;
  std::string at;         // "chunk 2", "micro-batch 1, chunk 0"
  int awaited = -1;       // the box of another lane whose end it waited for
  bool critical = false;  // on the chain of steps that nothing but each other delays
};

struct Timeline {
  std::string title;               // "mlp"
  std::string source;              // "predicted for ...", "measured ..."
  std::vector<std::string> notes;  // notes that explain the figures to the reader
  std::vector<TimelineLane> lanes;
  std::vector<TimelineStep> steps;
  std::vector<TimelineBox> boxes;  // by lane, then by time
  double seconds = 0;              // from the first begin to the last end
};

/// Times in which a rank is busy, each moment counted once however many streams are.
struct BusyTimes {
  double computation = 0;    // some stream computes
  double communication = 0;  // some stream communicates
  double both = 0;           // some stream does either
  /// The share of the shorter one that runs while the other does. 0 where one of them is missing.
  double hidden() const;
};
/// By rank.
std::vector<BusyTimes> busy_times(const Timeline& timeline);
/// The mean over ranks.
BusyTimes mean_times(const std::vector<BusyTimes>& ranks);

/// Every step begins when all that it waits for has ended, and takes the model's time; ranks that meet begin together.
/// Streams do not slow each other down. Loops run as often as the proof expands them, an If takes its first branch.
Timeline predict_timeline(const Plan& plan, const CostModel& model);

}  // namespace weftc
