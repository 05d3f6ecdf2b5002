// `recompute: {limit: BYTES}` of a training: of the choices between keeping all and keeping next to nothing
// (passes/prepare/kept_choices.h) the first whose plan is within the limit. Only plans know what a rank needs: choices
// are planned, as few as it takes to find the one between what is too much and what fits.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "ir/schedule.h"
#include "passes/prepare/kept_choices.h"

namespace weftc {

/// What a search has come to.
struct RecomputeSearch {
  int64_t limit = 0, needed = 0;  // bytes a rank
  size_t choices = 0, chosen = 0;
  int plans = 0;  // that were made
  KeptChoice choice;

  /// A line of the memory that `explain` shows, and the values that are kept.
  std::string text() const;
  std::string json() const;
};

/// Lets the schedule keep that choice. `needed_bytes` gives what the fullest rank needs under a schedule; nothing where
/// it has no plan. Nothing after reporting that no choice fits, and where the first has no plan: the schedule is as it
/// was then, and compiling it says why.
std::optional<RecomputeSearch> search_recomputation(
    Schedule& schedule, const std::vector<KeptChoice>& choices,
    const std::function<std::optional<int64_t>(const Schedule&)>& needed_bytes, Diags& diags);

}  // namespace weftc
