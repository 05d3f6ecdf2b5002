#include "cli/plan/stage_plans.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "cli/plan/uneven_plans.h"
#include "frontend/schedule_writer.h"

namespace weftc {

namespace {

// An estimate ignores fusion, which makes `best` shorter, and the cost of a cut.
constexpr double kFar = 1.3;
constexpr int kMostRefused = 3;  // numbers of micro-batches
constexpr size_t kSearched = 2;  // the number of cuts for which orders are searched

/// A pipeline of equal stages: `whole` seconds divided, and the time that it takes to fill.
double estimate(double whole, int stages, int micro_batches) {
  return whole / stages * (micro_batches + stages - 1) / micro_batches;
}

class StageSearch {
 public:
  StageSearch(const Options& options, const PlanRequest& request, bool trains, double best, const ShardingPlan* whole)
      : options_(options),
        request_(request),
        trains_(trains),
        whole_(whole),
        unstaged_(best),
        least_(best),
        c_(compile_until_layouts(options, request, reported_without_stages_)) {}

  std::vector<PredictedSchedule> run() {
    if (!c_) return {};
    for (int stages = 2; stages <= request_.ranks; ++stages)
      if (request_.ranks % stages == 0) try_stages(stages);
    try_uneven_stages();
    try_orders();
    return std::move(found_);
  }

 private:
  struct Pipe {
    std::string what;                     // "dp 2 x tp 2; 4 stages"
    std::string text;                     // a schedule without a pipeline
    std::string places;                   // lines of YAML; "": stages have places of their own
    std::string stages;                   // lines of `pipeline:`
    std::vector<Mesh> meshes;             // by stage
    std::optional<ShardingPlan> layouts;  // inside of each stage
    std::vector<int> counts;              // of micro-batches that may be tried
    int micro_batches = 0;
    std::string order;
    bool splits_backward = false;
    double seconds = std::numeric_limits<double>::infinity();
  };

  /// Only its plan tells the memory of a stage: its part of the weights, and the values of waiting micro-batches. So
  /// layouts are first chosen as if memory were sufficient. If it is not, layouts are chosen for the weights' part.
  void try_stages(int stages) {
    const int64_t memory = request_.machine.memory;
    if (lacks_memory(stages, 0) && memory > 0) lacks_memory(stages, memory * stages);
  }

  /// Tries this number of stages with layouts for this memory (0: enough). True if it is insufficient for every number
  /// of micro-batches.
  bool lacks_memory(int stages, int64_t memory) {
    const ShardingPlan* layouts = layouts_on(request_.ranks / stages, memory);
    std::optional<Pipe> pipe = layouts ? even_pipe(stages, *layouts) : std::nullopt;
    if (!pipe) return false;
    bool is_short = false, is_possible = false;
    pipe->counts = micro_batch_counts(c_->module, stages);
    std::vector<int> promising;
    for (const int micro_batches : pipe->counts)
      if (estimate(layouts->seconds, stages, micro_batches) <= kFar * least_) promising.push_back(micro_batches);
    for (const PredictedSchedule& made : try_counts(*pipe, promising))
      if (!made.refused.starts_with("[")) (made.refused.empty() ? is_possible : is_short) = true;
    return is_short && !is_possible;
  }

  /// More and more micro-batches, until they are slower than fewer were, or refused for good: what some of them do not
  /// divide others may.
  std::vector<PredictedSchedule> try_counts(Pipe pipe, const std::vector<int>& counts) {
    std::vector<PredictedSchedule> tried;
    double before = std::numeric_limits<double>::infinity();
    int refused = 0;  // one after the other
    for (const int micro_batches : counts) {
      pipe.micro_batches = micro_batches;
      tried.push_back(add(pipe));
      const PredictedSchedule& made = tried.back();
      refused = made.refused.starts_with("[") ? refused + 1 : 0;
      if (refused == kMostRefused || (refused > 0 && !made.refused.starts_with("[micro-batches-"))) break;
      if (made.refused.empty() && made.seconds > before) break;
      before = std::min(before, seconds_of(made));
    }
    return tried;
  }

  std::optional<Pipe> even_pipe(int stages, const ShardingPlan& layouts) {
    const bool is_one_rank = stages == request_.ranks;
    Diags diags;
    const std::optional<std::string> text = is_one_rank ? request_.kept : schedule_of(request_, layouts, diags);
    if (!text) return {};
    Pipe pipe;
    pipe.what = format("{}{} stages", is_one_rank ? "" : mesh_text(request_, layouts) + "; ", stages);
    pipe.text = *text, pipe.stages = format("stages: {}", stages), pipe.order = usual_order();
    pipe.meshes.assign(static_cast<size_t>(stages), is_one_rank ? Mesh() : layouts.mesh);
    if (!is_one_rank) pipe.layouts = layouts;
    return pipe;
  }

  const char* usual_order() const { return trains_ ? "1f1b" : "gpipe"; }

  /// The best layouts on this number of ranks, or null.
  const ShardingPlan* layouts_on(int ranks, int64_t memory) {
    if (ranks == request_.ranks) return whole_;
    const auto [known, is_new] = layouts_.try_emplace({ranks, memory});
    if (is_new) {
      Machine machine = request_.machine;
      machine.memory = memory;
      Diags reported_without_stages;
      std::optional<LayoutPlans> found =
          plan_layouts(options_, {request_.file, request_.kept, machine, ranks}, reported_without_stages);
      if (found && !found->plans.empty()) known->second = std::move(found->plans.front());
    }
    return known->second ? &*known->second : nullptr;
  }

  /// Tries more and more micro-batches for each cut, as long as that is faster.
  void try_uneven_stages() {
    const auto on = [this](int ranks, int64_t memory) { return layouts_on(ranks, memory); };
    const std::vector<int> all_counts = micro_batch_counts(c_->module, 1);
    for (const UnevenPlan& plan : plan_uneven_stages(*c_, request_, on)) {
      if (!plan.refused.empty()) {
        found_.emplace_back().what = plan.what;
        found_.back().refused = plan.refused;
        continue;
      }
      Pipe pipe{plan.what,    plan.text,  plan.places, plan.stages,  plan.meshes,
                plan.layouts, all_counts, 0,           usual_order()};
      std::vector<int> promising;
      for (const int micro_batches : plan.promising)
        if (plan.placed.seconds(micro_batches) <= kFar * least_) promising.push_back(micro_batches);
      try_counts(pipe, promising);
    }
  }

  /// The orders of the best ones searched for their times: never longer ones. They leave fewer gaps, so that fewer
  /// micro-batches may suffice, and stages may pay that did not.
  void try_orders() {
    std::vector<Pipe> best = best_;
    std::ranges::stable_sort(best, {}, &Pipe::seconds);
    for (size_t p = 0; p < std::min(best.size(), kSearched); ++p)
      if (best[p].seconds <= kFar * least_) try_orders(best[p]);
  }

  void try_orders(const Pipe& pipe) {
    std::vector<int> fewer;
    for (const int count : pipe.counts)
      if (count <= pipe.micro_batches) fewer.insert(fewer.begin(), count);
    double before = pipe.seconds;
    for (size_t i = 0; i < fewer.size(); ++i) {
      const double seconds = search_order(pipe, fewer[i]);
      if (i > 0 && seconds >= before) return;
      before = std::min(before, seconds);
    }
  }

  /// The time with a searched order.
  double search_order(Pipe pipe, int micro_batches) {
    pipe.order = "search", pipe.micro_batches = micro_batches;
    double seconds = seconds_of(add(pipe));
    pipe.splits_backward = true;
    if (trains_) seconds = std::min(seconds, seconds_of(add(pipe)));
    return seconds;
  }

  static double seconds_of(const PredictedSchedule& made) {
    return made.refused.empty() ? made.seconds : std::numeric_limits<double>::infinity();
  }

  /// On one line, but for stages that are listed.
  static std::string pipeline_text(const Pipe& pipe) {
    std::vector<std::string> keys = {pipe.stages, format("micro_batches: {}", pipe.micro_batches),
                                     "order: " + pipe.order};
    if (pipe.splits_backward) keys.push_back("backward: split");
    return pipe.places.empty() ? "pipeline: {" + join(keys, ", ") + "}" : "pipeline:\n  " + join(keys, "\n  ");
  }

  PredictedSchedule add(const Pipe& pipe) {
    const std::string lines = pipeline_text(pipe);
    std::string text = with_line(pipe.text, lines);
    if (!pipe.places.empty()) text = with_line(text, pipe.places);
    const std::string what = format("{}, {} {}, {}{}", pipe.what, pipe.micro_batches,
                                    pipe.micro_batches == 1 ? "micro-batch" : "micro-batches", pipe.order,
                                    pipe.splits_backward ? ", backward: split" : "");
    found_.push_back(predict_aloud(options_, what, std::move(text)));
    PredictedSchedule& made = found_.back();
    made.stages = pipe.meshes, made.layouts = pipe.layouts;
    made.text.insert(made.text.find(lines) + std::min(lines.find('\n'), lines.size()), "  # " + comment_of(made));
    least_ = std::min(least_, seconds_of(made));
    keep_best(pipe, seconds_of(made));
    return made;
  }

  /// The best number of micro-batches of each cut.
  void keep_best(const Pipe& pipe, double seconds) {
    const auto is_same = [&](const Pipe& other) {
      return other.text == pipe.text && other.places == pipe.places && other.stages == pipe.stages;
    };
    auto known = std::ranges::find_if(best_, is_same);
    if (known == best_.end()) known = best_.insert(best_.end(), pipe);
    if (seconds >= known->seconds) return;
    *known = pipe;
    known->seconds = seconds;
  }

  std::string comment_of(const PredictedSchedule& made) const {
    if (std::isinf(unstaged_)) return "no layouts run here without stages";
    return format("saves {}", seconds_text(unstaged_ - made.seconds));
  }

  const Options& options_;
  const PlanRequest& request_;
  const bool trains_;
  const ShardingPlan* whole_;
  const double unstaged_;
  double least_;  // seconds, of all that is known
  Diags reported_without_stages_;
  const std::unique_ptr<Compilation> c_;                                    // until layouts
  std::map<std::pair<int, int64_t>, std::optional<ShardingPlan>> layouts_;  // by ranks and memory
  std::vector<Pipe> best_;                                                  // of each cut
  std::vector<PredictedSchedule> found_;
};

}  // namespace

std::vector<PredictedSchedule> plan_stages(const Options& options, const PlanRequest& request, bool trains, double best,
                                           const ShardingPlan* whole) {
  return StageSearch(options, request, trains, best, whole).run();
}

}  // namespace weftc
