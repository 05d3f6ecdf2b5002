// The search for what a training keeps within a limit of memory: which choices it plans, and what it says.
#include "cli/recompute_search.h"

#include <doctest/doctest.h>

#include <map>

using namespace weftc;

namespace {

/// The number of the choice that a schedule from search_recomputation keeps.
size_t choice_of(const Schedule& schedule) {
  const auto& recompute = schedule.train->recompute;
  return recompute ? std::stoul(recompute->kept->front()) : 0;
}

struct Searched {
  std::optional<RecomputeSearch> found;
  Schedule schedule;
  Diags diags;
  std::vector<size_t> planned;
};

/// A search among choices that need so many bytes; one of -1 has no plan.
Searched search(int64_t limit, const std::vector<int64_t>& needed) {
  Searched made;
  made.schedule.train.emplace().recompute.emplace().limit = limit;
  std::vector<KeptChoice> choices;
  for (size_t i = 0; i < needed.size(); ++i) choices.push_back({{std::to_string(i)}, 100, 0.25, 0});
  const auto needed_bytes = [&](const Schedule& schedule) -> std::optional<int64_t> {
    const size_t i = choice_of(schedule);
    made.planned.push_back(i);
    return needed[i] < 0 ? std::nullopt : std::optional(needed[i]);
  };
  made.found = search_recomputation(made.schedule, choices, needed_bytes, made.diags);
  return made;
}

}  // namespace

TEST_CASE("a search keeps as much as fits") {
  const std::vector<int64_t> needed{90, 80, 70, 60, 50, 40, 30};
  for (const auto& [limit, wanted] : std::map<int64_t, size_t>{{100, 0}, {90, 0}, {89, 1}, {65, 3}, {30, 6}}) {
    CAPTURE(limit);
    const Searched made = search(limit, needed);
    REQUIRE(made.found);
    CHECK(made.found->chosen == wanted);
    CHECK(made.found->needed == needed[wanted]);
    CHECK(choice_of(made.schedule) == wanted);
    CHECK(made.planned.size() <= 5);
    CHECK(made.found->plans == static_cast<int>(made.planned.size()));
  }
}

TEST_CASE("a choice that needs more than an earlier one, or has no plan, is passed over") {
  CHECK(search(55, {90, 70, 50, 60}).found->chosen == 2);
  CHECK(search(55, {90, 70, 50, -1}).found->chosen == 2);
}

TEST_CASE("a limit that nothing fits in is an error that says what would do") {
  const Searched made = search(20, {90, 80, 70, 35, 30, 40});
  CHECK_FALSE(made.found);
  REQUIRE(made.diags.all().size() == 1);
  CHECK(made.diags.all()[0].id == "recompute-limit");
  CHECK(made.diags.all()[0].message.find("90 bytes") != std::string::npos);
  CHECK(made.diags.all()[0].message.find("at least 30") != std::string::npos);
}

TEST_CASE("where not even keeping all has a plan, compiling says why") {
  const Searched made = search(20, {-1, 10});
  CHECK_FALSE(made.found);
  CHECK(made.diags.ok());
  CHECK(made.schedule.train->recompute->limit == 20);
}

TEST_CASE("what a search has come to, in words and as JSON") {
  const std::string text = search(65, {90, 80, 60}).found->text();
  CHECK(text.find("1 values of 100 bytes are kept, 25.0 % of the forward pass is computed again") != std::string::npos);
  CHECK(search(99, {90, 80, 60}).found->text().find("all is kept") != std::string::npos);
  CHECK(search(65, {90, 80, 60}).found->json().find("\"chosen\": 2") != std::string::npos);
}
