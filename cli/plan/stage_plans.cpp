#include "cli/plan/stage_plans.h"

#include <algorithm>
#include <cmath>

#include "frontend/schedule_writer.h"

namespace weftc {

namespace {

// An estimate knows nothing of fusion, by which `best` is shorter; what a cut costs it leaves out.
constexpr double kFar = 1.3;
constexpr int kMostMicroBatches = 64;

/// A pipeline of equal stages: `whole` seconds divided, and the time that it takes to fill.
double estimate(double whole, int stages, int micro_batches) {
  return whole / stages * (micro_batches + stages - 1) / micro_batches;
}

class StageSearch {
 public:
  StageSearch(const Options& options, const PlanRequest& request, bool trains, double best)
      : options_(options), request_(request), trains_(trains), unstaged_(best), best_(best) {}

  std::vector<PredictedSchedule> run() {
    for (int stages = 2; stages <= request_.ranks; ++stages)
      if (request_.ranks % stages == 0) try_stages(stages);
    try_orders();
    return std::move(found_);
  }

 private:
  struct Pipe {
    ShardingPlan layouts;  // inside of each stage
    int stages = 0, micro_batches = 0;
    std::string order;
  };

  /// What a stage needs is known of its plan: its part of the weights, and what waits of some micro-batches. So layouts
  /// are chosen as if there were memory enough, and where there is not, those for the weights' part.
  void try_stages(int stages) {
    const int64_t memory = request_.machine.memory;
    if (lacks_memory(stages, 0) && memory > 0) lacks_memory(stages, memory * stages);
  }

  /// Tries so many stages with layouts for this memory (0: enough). True if it does not suffice, however many
  /// micro-batches there are.
  bool lacks_memory(int stages, int64_t memory) {
    Machine machine = request_.machine;
    machine.memory = memory;
    Diags reported_without_stages;
    const std::optional<LayoutPlans> found = plan_layouts(
        options_, {request_.file, request_.kept, machine, request_.ranks / stages}, reported_without_stages);
    if (!found || found->plans.empty()) return false;
    const ShardingPlan& layouts = found->plans.front();
    bool is_short = false, is_possible = false;
    for (int micro_batches = stages; micro_batches <= std::max(stages, kMostMicroBatches); micro_batches *= 2) {
      if (estimate(layouts.seconds, stages, micro_batches) > kFar * best_) continue;
      const PredictedSchedule made = add({layouts, stages, micro_batches, trains_ ? "1f1b" : "gpipe"});
      if (made.refused.starts_with("[")) break;  // with more of them it cannot be compiled either
      (made.refused.empty() ? is_possible : is_short) = true;
    }
    return is_short && !is_possible;
  }

  /// The order of the best one searched for its times: never a longer one.
  void try_orders() {
    if (!best_pipe_) return;
    Pipe searched = *best_pipe_;
    searched.order = "search";
    add(searched);
    if (!trains_) return;
    searched.order = "search, backward: split";
    add(searched);
  }

  PredictedSchedule add(const Pipe& pipe) {
    const bool is_one_rank = pipe.stages == request_.ranks;
    Diags diags;
    const std::optional<std::string> text = is_one_rank ? request_.kept : schedule_of(request_, pipe.layouts, diags);
    if (!text) return {};
    const std::string line =
        format("pipeline: {stages: {}, micro_batches: {}, order: {}}", pipe.stages, pipe.micro_batches, pipe.order);
    const std::string what =
        format("{}{} stages, {} micro-batches, {}", is_one_rank ? "" : mesh_text(request_, pipe.layouts) + "; ",
               pipe.stages, pipe.micro_batches, pipe.order);
    found_.push_back(predict_aloud(options_, what, with_line(*text, line)));
    PredictedSchedule& made = found_.back();
    made.stages = pipe.stages;
    if (!is_one_rank) made.layouts = pipe.layouts;
    made.text.insert(made.text.find(line) + line.size(), "  # " + comment_of(made));
    if (made.refused.empty() && made.seconds < best_) {
      best_ = made.seconds;
      best_pipe_ = pipe;
    }
    return made;
  }

  std::string comment_of(const PredictedSchedule& made) const {
    if (std::isinf(unstaged_)) return "no layouts run here without stages";
    return format("saves {}", seconds_text(unstaged_ - made.seconds));
  }

  const Options& options_;
  const PlanRequest& request_;
  const bool trains_;
  const double unstaged_;
  double best_;  // seconds, of all that is known
  std::optional<Pipe> best_pipe_;
  std::vector<PredictedSchedule> found_;
};

}  // namespace

std::vector<PredictedSchedule> plan_stages(const Options& options, const PlanRequest& request, bool trains,
                                           double best) {
  return StageSearch(options, request, trains, best).run();
}

}  // namespace weftc
