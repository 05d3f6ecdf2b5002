// `recompute: {limit: BYTES}` of a training. Choices range from keeping all values to keeping almost none
// (passes/prepare/kept_choices.h). The search finds the first choice whose plan is within the limit. Only a plan tells
// the memory of a rank, so the search plans as few choices as possible.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "ir/schedule.h"
#include "passes/prepare/kept_choices.h"

namespace weftc {

/// The result of a search.
struct RecomputeSearch {
  int64_t limit = 0, needed = 0;  // bytes a rank
  size_t choices = 0, chosen = 0;
  int plans = 0;  // plans that were made
  KeptChoice choice;

  /// The line of `explain` about memory and the kept values.
  std::string text() const;
  std::string json() const;
};

/// Searches a choice and puts it into the schedule. `needed_bytes` returns the bytes of the fullest rank under a
/// schedule, or nullopt if it has no plan. Returns nullopt after reporting that no choice fits. It also returns nullopt
/// if the first choice has no plan: the schedule is then unchanged, and compiling it reports why.
std::optional<RecomputeSearch> search_recomputation(
    Schedule& schedule, const std::vector<KeptChoice>& choices,
    const std::function<std::optional<int64_t>(const Schedule&)>& needed_bytes, Diags& diags);

}  // namespace weftc
