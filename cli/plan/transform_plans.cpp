#include "cli/plan/transform_plans.h"

#include <limits>

#include "cli/plan/layout_plans.h"
#include "cli/process.h"
#include "cli/transform_trials.h"
#include "frontend/schedule_writer.h"
#include "ir/exchange_types.h"
#include "passes/cost/machine.h"
#include "passes/select.h"

namespace weftc {

namespace {

// A step that gains less is not worth a line of the schedule.
constexpr double kWorthALine = 0.995;

/// Seconds of the collectives of that name, in all layers; infinity for transfers between places.
double exchange_seconds(const Compilation& c, const std::string& name) {
  const Graph& graph = c.module.graph;
  const SelectableNames names(c.module, graph);
  const Selector selector{Selector::Kind::Name, name, {}};
  double seconds = 0;
  for (const Bindings& bindings : names.bindings({selector}))
    for (const OpId id : names.select_ops(selector, bindings)) {
      const Op& op = graph.op(id);
      const Place& place = c.module.place(op.place);
      if (op.kind == OpKind::Transfer) return std::numeric_limits<double>::infinity();
      if (is_exchange(op))
        seconds += collective_seconds(c.machine, op.kind, local_bytes(graph.type(op.inputs[0]), place.mesh),
                                      local_bytes(graph.type(op.outputs[0]), place.mesh),
                                      group_of(c.machine, place, axes_of(op)));
    }
  return seconds;
}

class TransformSearch {
 public:
  TransformSearch(const Options& options, const PredictedSchedule& base)
      : options_(options), base_(base), best_(base) {}

  PredictedSchedule run() {
    Diags refused;
    before_ = compile_before_transforms(with_schedule(options_, base_.text), refused);
    if (!before_) return base_;
    for (const std::string& collective : tunable_collectives(before_->module)) try_collective(collective);
    return std::move(best_);
  }

 private:
  /// Each step of one collective after another; the first one of each has a comment.
  std::optional<std::string> text_with(const std::vector<TransformStep>& steps, Diags& diags) const {
    return with_transforms("plan.yaml", base_.text, steps, diags, comments_);
  }

  /// A collective that takes less than a step has to gain is left as it is: little more than its time can be hidden.
  void try_collective(const std::string& collective) {
    if (exchange_seconds(*before_, collective) < (1 - kWorthALine) * best_.seconds) return;
    Diags refused;
    const std::unique_ptr<Compilation> c = compile_transforms(with_schedule(options_, best_.text), *before_, refused);
    if (!c) return;
    const double before = best_.seconds;
    const std::vector<TransformStep> chosen = chosen_;
    const TextWithSteps text = [&](const auto& steps, Diags& diags) { return text_with(steps, diags); };
    const std::vector<Candidate> candidates =
        legal_transforms(options_, c->module, collective, {2, 4}, chosen, text, *before_);
    for (const Candidate& candidate : candidates)
      if (candidate.steps.size() > chosen.size()) try_candidate(candidate);
    progress(options_, format("{}: {} transforms, the best takes {}", printable(collective), candidates.size(),
                              seconds_text(best_.seconds)));
    if (chosen_.size() == chosen.size()) return;
    comments_.resize(chosen.size());
    comments_.push_back("saves " + seconds_text(before - best_.seconds));
    best_.text = text_with(chosen_, refused).value_or(best_.text);
  }

  void try_candidate(const Candidate& candidate) {
    Diags refused;
    const std::optional<std::string> text = text_with(candidate.steps, refused);
    if (!text) return;
    PredictedSchedule made = predict(options_, base_.what + ", transformed", *text, before_.get());
    made.layouts = base_.layouts, made.stages = base_.stages;
    if (!made.refused.empty() || made.seconds > kWorthALine * best_.seconds) return;
    best_ = std::move(made);
    chosen_ = candidate.steps;
  }

  const Options& options_;
  const PredictedSchedule& base_;
  std::unique_ptr<Compilation> before_;  // of the base: all candidates go on from it
  PredictedSchedule best_;
  std::vector<TransformStep> chosen_;  // of `best_`
  std::vector<std::string> comments_;
};

/// Collectives of a training by the ends of their names, and what their buckets are called.
struct Bucketed {
  const char *pattern, *into;
};
constexpr Bucketed kBucketed[] = {
    {"*.grad.sum*", "sums"}, {"*.grad.scatter*", "scatters"}, {"*.next.gather", "gathers"}, {"*.squares.sum", "norms"}};
constexpr int64_t kBucketSizes[] = {1 << 20, 4 << 20, 16 << 20, 64 << 20};

class BucketSearch {
 public:
  BucketSearch(const Options& options, const PredictedSchedule& base) : options_(options), base_(base), best_(base) {}

  PredictedSchedule run() {
    Diags refused;
    before_ = compile_before_transforms(with_schedule(options_, base_.text), refused);
    if (!before_) return base_;
    const SelectableNames names(before_->module, before_->module.graph);
    for (const Bucketed& kind : kBucketed) {
      const Selector pattern{Selector::Kind::Name, kind.pattern, {}};
      if (!names.bindings({pattern}).empty() && !names.select_ops(pattern, {}).empty()) try_kind(kind, pattern);
    }
    return std::move(best_);
  }

 private:
  /// Tries buckets of each size, in sequence and on a stream of their own, and takes the fastest if it is worth its
  /// lines.
  void try_kind(const Bucketed& kind, const Selector& pattern) {
    const double before = best_.seconds;
    const std::vector<TransformStep> chosen = chosen_;
    for (const int64_t size : kBucketSizes) {
      std::vector<TransformStep> steps = chosen;
      steps.push_back({FuseStep{{pattern}, kind.into, {}, size}, {}});
      try_steps(steps);
      steps.push_back({OverlapStep{{{Selector::Kind::Name, std::string(kind.into) + ".*", {}}}, 0}, {}});
      try_steps(steps);
    }
    progress(options_, format("{}, {} in buckets: {}", base_.what, kind.pattern, seconds_text(best_.seconds)));
    if (chosen_.size() == chosen.size()) return;
    comments_.resize(chosen.size());
    comments_.push_back("saves " + seconds_text(before - best_.seconds));
    Diags refused;
    best_.text = text_with(chosen_, refused).value_or(best_.text);
  }

  std::optional<std::string> text_with(const std::vector<TransformStep>& steps, Diags& refused) const {
    return with_transforms("plan.yaml", base_.text, steps, refused, comments_);
  }

  void try_steps(const std::vector<TransformStep>& steps) {
    Diags refused;
    const std::optional<std::string> text = text_with(steps, refused);
    if (!text) return;
    PredictedSchedule made = predict(options_, base_.what + ", in buckets", *text, before_.get());
    made.layouts = base_.layouts, made.stages = base_.stages;
    if (!made.refused.empty() || made.seconds > kWorthALine * best_.seconds) return;
    best_ = std::move(made);
    chosen_ = steps;
  }

  const Options& options_;
  const PredictedSchedule& base_;
  std::unique_ptr<Compilation> before_;
  PredictedSchedule best_;
  std::vector<TransformStep> chosen_;  // of `best_`
  std::vector<std::string> comments_;
};

}  // namespace

PredictedSchedule plan_buckets(const Options& options, const PredictedSchedule& base) {
  return BucketSearch(options, base).run();
}

PredictedSchedule plan_transforms(const Options& options, const PredictedSchedule& base) {
  return TransformSearch(options, base).run();
}

}  // namespace weftc
