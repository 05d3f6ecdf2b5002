// Entries of layouts beside the whole programs without them.
#include "cli/plan/entry_plans.h"

#include <doctest/doctest.h>

namespace weftc {

namespace {

PlannedEntry sliced(const std::string& name, int dim) {
  return {{{Selector::Kind::Name, name, {}}, false, {{{"x"}, false, dim, 1, {}}}}};
}

}  // namespace

TEST_CASE("entry plans: what does not pay in the whole program is dropped") {
  Options options;
  options.model = "samples/mlp/mlp.onnxtxt", options.machine = "samples/machines/host-2-cores.yaml";
  options.quiet = true;
  const Machine machine;
  const PlanRequest request{"plan.yaml", "weft: 1\n", machine, 2};
  // Two products by columns in sequence: everything is gathered before the second one.
  ShardingPlan layouts;
  layouts.mesh = {{"x", 2}};
  const auto predicted = [&](const std::vector<PlannedEntry>& entries) {
    layouts.entries = entries;
    Diags diags;
    const std::optional<std::string> text = schedule_of(request, layouts, diags);
    REQUIRE_MESSAGE(text, diags.text());
    PredictedSchedule made = predict(options, "two columns", *text);
    REQUIRE(made.refused.empty());
    made.layouts = layouts;
    return made;
  };
  const PredictedSchedule alike = predicted({});
  const PredictedSchedule base = predicted({sliced("fc_weight", 1), sliced("proj_weight", 1)});
  REQUIRE(base.seconds > alike.seconds);
  const PredictedSchedule best = plan_entries(options, request, base);
  CHECK(best.layouts->entries.empty());
  CHECK(best.text == alike.text);
  CHECK(best.seconds == alike.seconds);
}

}  // namespace weftc
