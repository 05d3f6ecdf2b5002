#include "cli/recompute_search.h"

#include <algorithm>
#include <map>

#include "cli/json.h"
#include "cli/layers.h"
#include "cli/table.h"

namespace weftc {

namespace {

constexpr size_t kMostShown = 20;  // rows of kept values

/// An estimate orders the choices: the last need not be the one that takes least.
constexpr size_t kLeastTried = 3;

class Search {
 public:
  Search(const Schedule& schedule, const std::vector<KeptChoice>& choices,
         const std::function<std::optional<int64_t>(const Schedule&)>& needed_bytes)
      : schedule_(schedule), choices_(choices), needed_bytes_(needed_bytes) {}

  /// The schedule with one of the choices in place of the limit.
  Schedule schedule_of(size_t i) const {
    Schedule made = schedule_;
    if (i == 0)
      made.train->recompute.reset();
    else
      made.train->recompute->kept = choices_[i].kept;
    return made;
  }

  /// The bytes that a choice needs; nullopt if it has no plan.
  std::optional<int64_t> needed(size_t i) {
    const auto [at, is_new] = needed_.try_emplace(i);
    if (is_new) at->second = needed_bytes_(schedule_of(i));
    return at->second;
  }

  bool fits(size_t i) { return needed(i) && *needed(i) <= *schedule_.train->recompute->limit; }

  /// The first choice that fits, if their plans are ordered as the choices are; nothing where none was found.
  std::optional<size_t> first_that_fits() {
    if (fits(0)) return 0;
    size_t too_much = 0, enough = choices_.size();
    for (size_t tried = 0; tried < kLeastTried && enough == choices_.size(); ++tried)
      if (choices_.size() > tried + 1 && fits(choices_.size() - 1 - tried)) enough = choices_.size() - 1 - tried;
    if (enough == choices_.size()) return {};
    while (enough - too_much > 1) {
      const size_t middle = (too_much + enough) / 2;
      (fits(middle) ? enough : too_much) = middle;
    }
    return enough;
  }

  int64_t least() const {
    int64_t bytes = INT64_MAX;
    for (const auto& [i, needed] : needed_) bytes = std::min(bytes, needed.value_or(INT64_MAX));
    return bytes;
  }
  int plans() const { return static_cast<int>(needed_.size()); }

 private:
  const Schedule& schedule_;
  const std::vector<KeptChoice>& choices_;
  const std::function<std::optional<int64_t>(const Schedule&)>& needed_bytes_;
  std::map<size_t, std::optional<int64_t>> needed_;
};

}  // namespace

std::optional<RecomputeSearch> search_recomputation(
    Schedule& schedule, const std::vector<KeptChoice>& choices,
    const std::function<std::optional<int64_t>(const Schedule&)>& needed_bytes, Diags& diags) {
  const RecomputeRequest request = *schedule.train->recompute;
  Search search(schedule, choices, needed_bytes);
  if (!search.needed(0)) return {};
  const std::optional<size_t> chosen = search.first_that_fits();
  if (!chosen) {
    diags.error("recompute-limit", request.loc,
                "a rank needs {} bytes if all is kept for the backward pass, and at least {} if it is computed again; "
                "the limit is {}",
                *search.needed(0), search.least(), *request.limit);
    return {};
  }
  RecomputeSearch found{*request.limit, *search.needed(*chosen), choices.size(),
                        *chosen,        search.plans(),          choices[*chosen]};
  Schedule made = search.schedule_of(*chosen);
  schedule = std::move(made);
  return found;
}

std::string RecomputeSearch::text() const {
  const std::string where =
      format("  recompute: a rank needs {} of the {} that are its limit: ", bytes_text(needed), bytes_text(limit));
  if (chosen == 0) return where + "all is kept for the backward pass\n";
  std::string text = where + format(
                                 "{} values of {} are kept, {} % of the forward pass is computed again (choice {} "
                                 "of {}, of which {} were planned)\n",
                                 choice.kept.size(), bytes_text(choice.bytes), fixed(choice.again * 100, "%.1f"),
                                 chosen, choices - 1, plans);
  TableRows cells;
  for (const std::string& name : choice.kept) cells.push_back({printable(name)});
  const TableRows rows = fold_layers(cells, {0});
  for (size_t i = 0; i < std::min(rows.size(), kMostShown); ++i)
    text += "    " + rows[i][0] + (rows[i].size() > 1 && !rows[i][1].empty() ? " (" + rows[i][1] + ")" : "") + "\n";
  return rows.size() > kMostShown ? text + format("    and {} more\n", rows.size() - kMostShown) : text;
}

std::string RecomputeSearch::json() const {
  return json_object({{"limit", std::to_string(limit)},
                      {"needed", std::to_string(needed)},
                      {"choices", std::to_string(choices)},
                      {"chosen", std::to_string(chosen)},
                      {"plans", std::to_string(plans)},
                      {"kept_bytes", std::to_string(choice.bytes)},
                      {"again", fixed(choice.again, "%.6g")},
                      {"kept", chosen == 0 ? "null" : json_strings(choice.kept)}});
}

}  // namespace weftc
