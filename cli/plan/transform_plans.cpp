#include "cli/plan/transform_plans.h"

#include "cli/plan/layout_plans.h"
#include "cli/process.h"
#include "cli/transform_trials.h"
#include "frontend/schedule_writer.h"

namespace weftc {

namespace {

// A step that gains less is not worth a line of the schedule.
constexpr double kWorthALine = 0.995;

class TransformSearch {
 public:
  TransformSearch(const Options& options, const PredictedSchedule& base)
      : options_(options), base_(base), best_(base) {}

  PredictedSchedule run() {
    Diags refused;
    const std::unique_ptr<Compilation> c = compile_transforms(with_schedule(options_, base_.text), refused);
    if (!c) return base_;
    for (const std::string& collective : tunable_collectives(c->module)) try_collective(collective);
    return std::move(best_);
  }

 private:
  /// Each step of one collective after another; the first one of each has a comment.
  std::optional<std::string> text_with(const std::vector<TransformStep>& steps, Diags& diags) const {
    return with_transforms("plan.yaml", base_.text, steps, diags, comments_);
  }

  void try_collective(const std::string& collective) {
    Diags refused;
    const std::unique_ptr<Compilation> c = compile_transforms(with_schedule(options_, best_.text), refused);
    if (!c) return;
    const double before = best_.seconds;
    const std::vector<TransformStep> chosen = chosen_;
    const TextWithSteps text = [&](const auto& steps, Diags& diags) { return text_with(steps, diags); };
    const std::vector<Candidate> candidates = legal_transforms(options_, c->module, collective, {2, 4}, chosen, text);
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
    PredictedSchedule made = predict(options_, base_.what + ", transformed", *text);
    if (!made.refused.empty() || made.seconds > kWorthALine * best_.seconds) return;
    best_ = std::move(made);
    chosen_ = candidate.steps;
  }

  const Options& options_;
  const PredictedSchedule& base_;
  PredictedSchedule best_;
  std::vector<TransformStep> chosen_;  // of `best_`
  std::vector<std::string> comments_;
};

}  // namespace

PredictedSchedule plan_transforms(const Options& options, const PredictedSchedule& base) {
  return TransformSearch(options, base).run();
}

}  // namespace weftc
