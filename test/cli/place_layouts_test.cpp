// Layouts of several places as one set of entries: each place slices as its own plan does.
#include "cli/plan/place_layouts.h"

#include <doctest/doctest.h>

#include "cli/plan/layout_plans.h"

using namespace weftc;

namespace {

PlannedEntry sliced(const std::string& value, const std::string& axis, int dim) {
  return {{{Selector::Kind::Name, value, {}}, false, {{{axis}, false, dim, 1, {}}}}};
}

ShardingPlan plan_of(Mesh mesh, std::vector<PlannedEntry> entries) {
  ShardingPlan plan;
  plan.mesh = std::move(mesh), plan.entries = std::move(entries);
  return plan;
}

}  // namespace

TEST_CASE("place layouts: equal entries have one axis, of which each place has as many ranks as it needs") {
  const ShardingPlan two = plan_of({{"tp", 2}}, {sliced("h.{l}.fc.weight", "tp", 1)});
  const ShardingPlan four = plan_of({{"tp", 4}}, {sliced("h.{l}.fc.weight", "tp", 1)});
  const ShardingPlan one = plan_of({{"tp", 1}}, {});
  const PlaceLayouts made = join_layouts({&one, &two, &four});
  CHECK(made.meshes == std::vector<Mesh>{{{"tp", 1}}, {{"tp", 2}}, {{"tp", 4}}});
  CHECK(lines_of(made.entries) == std::vector<std::string>{"\"h.{l}.fc.weight\": {tp: 1}"});
}

TEST_CASE("place layouts: other entries have axes of their own, on which other places have one rank") {
  const ShardingPlan two = plan_of({{"tp", 2}}, {sliced("a", "tp", 0), sliced("b", "tp", 1)});
  const ShardingPlan six = plan_of({{"dp", 2}, {"tp", 3}}, {sliced("x", "dp", 0), sliced("a", "tp", 1)});
  const PlaceLayouts made = join_layouts({&two, &six});
  CHECK(made.meshes[0] == Mesh{{"dp", 1}, {"tp", 1}, {"tp_of_2", 2}});
  CHECK(made.meshes[1] == Mesh{{"dp", 2}, {"tp", 3}, {"tp_of_2", 1}});
  CHECK(lines_of(made.entries) ==
        std::vector<std::string>{"\"x\": {dp: 0}", "\"a\": {tp: 1, tp_of_2: 0}", "\"b\": {tp_of_2: 1}"});
}

TEST_CASE("place layouts: places of one rank need no axes") {
  const ShardingPlan one = plan_of({{"tp", 1}}, {});
  const PlaceLayouts made = join_layouts({&one, &one});
  CHECK(made.meshes == std::vector<Mesh>(2));
  CHECK(made.entries.empty());
}
