// Queries of a Plan that all its readers share.
#include "ir/plan_walk.h"

#include <doctest/doctest.h>

using namespace weftc;

namespace {

Step named(const std::string& name) {
  Step step;
  step.name = name;
  return step;
}

}  // namespace

TEST_CASE("plan walk: a step comes before the steps inside it, branches in their order") {
  Step branch = named("if");
  branch.what = IfStep{{}, {named("then")}, {named("else")}};
  Step loop = named("for");
  loop.what = ForStep{2, {named("a"), branch}};
  const std::vector<Step> steps = {named("first"), loop, named("last")};
  std::string order;
  for_each_step(steps, [&](const Step& step) { order += step.name + " "; });
  CHECK(order == "first for a if then else last ");
  CHECK(bodies_of(steps[0]).empty());
}

TEST_CASE("plan walk: a rank group varies the listed axes only, in the order of the place") {
  const Place place{"p", {7, 3, 5, 1, 0, 2}, {{"dp", 3}, {"tp", 2}}};
  CHECK(rank_group(place, {}, 5) == std::vector<int>{5});
  CHECK(rank_group(place, {1}, 5) == std::vector<int>{5, 1});
  CHECK(rank_group(place, {0}, 1) == std::vector<int>{3, 1, 2});
  CHECK(rank_group(place, {0, 1}, 0) == place.ranks);
}

TEST_CASE("plan walk: a time axis that slices the value and not its memory is whole there") {
  TensorType memory{DType::F32, {{8, {}}}, {}}, value = memory;
  value.layout.set(0, AxisState::sliced(0, 4));
  value.layout.set(1, AxisState::sliced(0, 2));
  CHECK(whole_over(value, memory, 1, 2) == std::vector<int>{1});
  CHECK(whole_over(value, memory, 0, 2) == std::vector<int>{0, 1});
  CHECK(whole_over(value, value, 0, 2).empty());
}
