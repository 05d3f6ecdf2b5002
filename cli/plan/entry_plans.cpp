#include "cli/plan/entry_plans.h"

#include <algorithm>
#include <cmath>

#include "cli/process.h"

namespace weftc {

namespace {

constexpr size_t kMostEntries = 30;
// The fraction of the program's time that an entry must save.
constexpr double kTiny = 1e-3;
constexpr double kPicoseconds = 1e12;

class EntryTrials {
 public:
  EntryTrials(const Options& options, const PlanRequest& request, const PredictedSchedule& base)
      : options_(options), request_(request), best_(base) {}

  PredictedSchedule run() {
    while (drop_slowest()) {
    }
    best_.text = text_of(*best_.layouts).value_or(best_.text);
    return std::move(best_);
  }

 private:
  std::optional<std::string> text_of(const ShardingPlan& layouts) const {
    Diags refused;
    return schedule_of(request_, layouts, refused);
  }

  /// nullopt if the kept schedule cannot take the remaining entries.
  std::optional<PredictedSchedule> predict_without(size_t entry) const {
    ShardingPlan layouts = *best_.layouts;
    layouts.entries.erase(layouts.entries.begin() + static_cast<long>(entry));
    const std::optional<std::string> text = text_of(layouts);
    if (!text) return {};
    PredictedSchedule made = predict(options_, best_.what, *text);
    made.layouts = std::move(layouts);
    return made;
  }

  /// Computes the savings of each entry, and drops the entry without which the program is fastest. False if each is
  /// worth its line.
  bool drop_slowest() {
    const double tolerable = (1 + kTiny) * best_.seconds;
    std::optional<PredictedSchedule> fastest;
    for (size_t e = 0; e < best_.layouts->entries.size(); ++e) {
      std::optional<PredictedSchedule> without = predict_without(e);
      if (!without) continue;
      note(best_.layouts->entries[e], *without);
      if (without->refused.empty() && without->seconds <= (fastest ? fastest->seconds : tolerable))
        fastest = std::move(without);
    }
    if (!fastest) return false;
    best_ = std::move(*fastest);
    progress(options_, format("{}, an entry less: {}", best_.what, seconds_text(best_.seconds)));
    return true;
  }

  void note(PlannedEntry& entry, const PredictedSchedule& without) const {
    if (without.refused.starts_with("[")) return;  // the savings by sums over ops stay
    entry.is_needed = !without.refused.empty();
    entry.saves = entry.is_needed ? 0 : std::llround((without.seconds - best_.seconds) * kPicoseconds);
  }

  const Options& options_;
  const PlanRequest& request_;
  PredictedSchedule best_;
};

/// Whether these are layouts alone: recomputation for lack of memory would depend on all entries.
bool has_layouts_alone(const PlanRequest& request, const PredictedSchedule& base) {
  Diags refused;
  return base.refused.empty() && base.layouts && base.text == schedule_of(request, *base.layouts, refused);
}

}  // namespace

PredictedSchedule drop_tiny_entries(const Options& options, const PlanRequest& request, const PredictedSchedule& base) {
  if (!has_layouts_alone(request, base)) return base;
  ShardingPlan layouts = *base.layouts;
  const auto is_tiny = [&](const PlannedEntry& entry) {
    return !entry.is_needed && static_cast<double>(entry.saves) < kTiny * base.seconds * kPicoseconds;
  };
  if (std::erase_if(layouts.entries, is_tiny) == 0) return base;
  Diags refused;
  const std::optional<std::string> text = schedule_of(request, layouts, refused);
  if (!text) return base;
  PredictedSchedule made = predict(options, base.what, *text);
  made.layouts = std::move(layouts);
  return made.refused.empty() && made.seconds <= (1 + kTiny) * base.seconds ? made : base;
}

PredictedSchedule plan_entries(const Options& options, const PlanRequest& request, const PredictedSchedule& base) {
  if (!has_layouts_alone(request, base) || base.layouts->entries.size() > kMostEntries) return base;
  return EntryTrials(options, request, base).run();
}

}  // namespace weftc
