// The line of cells that stages are cut from: branches one after the other, and where everything else goes.
#include <algorithm>

#include "passes/prepare/branch_order.h"
#include "passes/prepare/stages.h"
#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {

// Two towers whose nodes take turns in the file; the second one is longer.
constexpr const char* kTowers = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[8, 6] x, float[8, 6] z, float[8, 6] target) => (float[8, 6] y)
<float[6, 6] u = random(1, 0.5), float[6, 6] v = random(2, 0.5), float[6, 6] w = random(3, 0.5)> {
  [a0] p0 = MatMul(x, u) [b0] q0 = MatMul(z, v) [a1] p1 = Tanh(p0) [b1] q1 = Tanh(q0) [b2] q2 = MatMul(q1, w)
  [join] s = Add(p1, q2) [turn] t = Transpose <perm = [1, 0]> (w) [last] y = MatMul(s, t)
})";
constexpr const char* kTraining =
    "train:\n  loss: {mean_squared_error: {predictions: y, targets: target}}\n  optimizer: {sgd: {rate: 0.1}}\n";

StageCells cells_of(Scheduled& made) {
  REQUIRE_MESSAGE(made.ok(), made.diags.text());
  Schedule schedule = made.schedule;
  schedule.pipeline.emplace().cuts = true;
  return Stages(*made.module, schedule, made.target, made.diags).find_cells();
}

/// The cell of an op by the name of its result.
int cell_of(const Scheduled& made, const StageCells& cells, const std::string& value) {
  const ValueId id = made.module->graph.find_value(value);
  REQUIRE_MESSAGE(id, value);
  return cells.cell_of[made.module->graph.producer(id).index];
}

}  // namespace

TEST_CASE("stage cells: branches stand one after the other, the longest first") {
  const auto made = prepare(kTowers, "weft: 1\n", "bind-collectives");
  const StageCells cells = cells_of(*made);
  CHECK(cells.line.size() == 7);
  int before = -1;
  for (const char* value : {"q0", "q1", "q2", "p0", "p1", "s", "y"}) {
    CAPTURE(value);
    CHECK(cell_of(*made, cells, value) == ++before);
  }
  CHECK(cell_of(*made, cells, "x") == -1);
  CHECK(cells.line[2].after == 8 * 6 * 4);
  CHECK(cells.line[4].after == 2 * 8 * 6 * 4);
  CHECK(std::ranges::count(cells.is_node, true) == 7);
}

TEST_CASE("stage cells: derivatives and updates are of the cells of their nodes, and nothing changes") {
  const auto made = prepare(kTowers, std::string("weft: 1\n") + kTraining, "bind-collectives");
  const size_t ops = made->module->graph.op_count();
  const StageCells cells = cells_of(*made);
  CHECK(made->module->graph.op_count() == ops);
  for (const auto& [output, node] : {std::pair("u", "p0"), std::pair("v", "q0"), std::pair("w", "q2")}) {
    CAPTURE(output);
    const auto state = std::ranges::find(made->module->states, output, &State::input);
    REQUIRE(state != made->module->states.end());
    for (const Graph::Output& next : made->module->graph.outputs())
      if (next.name == state->output)
        CHECK(cells.cell_of[made->module->graph.producer(next.value).index] == cell_of(*made, cells, node));
  }
  CHECK(!cells.is_forward[made->module->graph.producer(made->module->graph.outputs().back().value).index]);
  const auto has_cell = [&](OpId id) { return is_source(made->module->graph.op(id)) || cells.cell_of[id.index] >= 0; };
  // The rest is computed wherever it is read, such as the rate.
  CHECK(std::ranges::count_if(made->module->graph.order(), has_cell) > static_cast<long>(ops) * 3 / 4);
}

TEST_CASE("stage cells: derivatives and updates count where stages are cut") {
  const std::string model = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[512, 64] x, float[512, 64] target) => (float[512, 64] y)
<float[64, 64] u = random(1, 0.1), float[64, 64] v = random(2, 0.1), float[64, 64] w = random(3, 0.1)> {
  [a] p = MatMul(x, u) [b] q = MatMul(p, v) [c] y = MatMul(q, w)
})";
  const auto inference = prepare(model, "weft: 1\n", "bind-collectives");
  const auto training = prepare(model, std::string("weft: 1\n") + kTraining, "bind-collectives");
  const std::vector<LineItem> forward = cells_of(*inference).line, all = cells_of(*training).line;
  REQUIRE(forward.size() == 3);
  REQUIRE(all.size() == 3);
  CAPTURE(all[2].time);
  CHECK(forward[0].time == doctest::Approx(forward[1].time));
  CHECK(all[0].time > 1.9 * forward[0].time);  // by its weight alone: nothing asks for the derivative by the input
  CHECK(all[1].time > 1.3 * all[0].time);
}

TEST_CASE("branches in line: an early end stands after what it reads") {
  const auto made = prepare(R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[8, 6] x) => (float[8, 6] y, float[8, 6] e) {
  a = Tanh(x) b = Tanh(a) c = Tanh(b) e = Sin(a) y = Add(c, a)
})",
                            "weft: 1\n", "bind-collectives");
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  const Graph& graph = made->module->graph;
  std::vector<bool> is_wanted(graph.op_capacity(), false);
  for (const OpId id : graph.order()) is_wanted[id.index] = !is_source(graph.op(id));
  std::string line;
  for (const OpId id : branches_in_line(graph, is_wanted)) line += graph.value(graph.result(id)).name;
  CHECK(line == "aebcy");
}
