// Layouts of stages at places of their own: what is inside of them, and what they receive.
#include "cli/plan/stage_layouts.h"

#include <doctest/doctest.h>

#include "cli/plan/layout_plans.h"

namespace weftc {

namespace {

/// The sample's MLP in two stages: the first product with its activation, and the second product.
struct TwoStages {
  TwoStages() {
    options.model = "samples/mlp/mlp.onnxtxt", options.quiet = true;
    c = compile_until_layouts(options, {"plan.yaml", "weft: 1\n", machine, 2}, diags);
    REQUIRE_MESSAGE(c, diags.text());
    Schedule schedule = c->schedule;
    schedule.pipeline.emplace().cuts = true;
    cells = Stages(c->module, schedule, c->target, diags).find_cells();
    stage_of.assign(cells.line.size(), 0);
    for (const char* value : {"proj", "bias", "residual"}) {
      const int cell = cells.cell_of[c->module.graph.producer(c->module.graph.find_value(value)).index];
      REQUIRE(cell >= 0);
      stage_of[static_cast<size_t>(cell)] = 1;
    }
  }

  std::vector<std::string> lines(int stage, const std::string& value, int dim) const {
    ShardingPlan plan;
    plan.mesh = {{"a", 2}};
    plan.entries = {{{{Selector::Kind::Name, value, {}}, false, {{{"a"}, false, dim, 1, {}}}}}};
    return lines_of(StageLayouts(*c, cells, stage_of).of({stage}, plan).entries);
  }

  Options options;
  Machine machine;
  Diags diags;
  std::unique_ptr<Compilation> c;
  StageCells cells;
  std::vector<int> stage_of;
};

}  // namespace

TEST_CASE("stage layouts: a place after a cut slices the samples that it receives") {
  const TwoStages made;
  CHECK(made.lines(0, "x", 0) == std::vector<std::string>{"\"x\": {dp: 0}"});
  CHECK(made.lines(1, "x", 0) == std::vector<std::string>{"\"x\": {dp: 0}", "\"act.use\": {dp: 0}"});
}

TEST_CASE("stage layouts: weights are of the stage that reads them, and what is whole is received whole") {
  const TwoStages made;
  CHECK(made.lines(0, "fc_weight", 1) == std::vector<std::string>{"\"fc_weight\": {tp: 1}"});
  CHECK(made.lines(0, "proj_weight", 1).empty());
  CHECK(made.lines(1, "proj_weight", 1) == std::vector<std::string>{"\"proj_weight\": {tp: 1}"});
}

}  // namespace weftc
