// The program that measures a machine: it compiles for any number of ranks, every step of it is known, and what its
// times become.
#include "cli/machine_probe.h"

#include "frontend/machine_file.h"
#include "frontend/machine_writer.h"
#include "ir/plan_walk.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// Every step of the probe with that many seconds.
StepSeconds equal_times(int ranks, double seconds) {
  const Planned made = plan_of(probe_model(ranks, true), probe_schedule(ranks));
  StepSeconds steps;
  for (const Block& block : made.plan.blocks)
    for_each_step(block.steps, [&](const Step& step) { steps[step.name] = seconds; });
  return steps;
}

}  // namespace

TEST_CASE("a machine's probe has a step for each figure, on one rank and on several") {
  for (const int ranks : {1, 2, 3}) {
    const StepSeconds steps = equal_times(ranks, 1e-3);
    const Ceilings found = probed_ceilings(steps, ranks, 3);
    CHECK(found.f32 == doctest::Approx(2e3 * 768 * 768 * 768));
    CHECK(found.f64 == doctest::Approx(2e3 * 512 * 512 * 512));
    CHECK(found.memory == doctest::Approx(2e3 * (128 / ranks) * (1 << 20)));
    CHECK(found.step == 1e-3);
    if (ranks > 1) CHECK(probed_curves(steps, ranks).size() == 4);
    const Ceilings shared = probed_ceilings(steps, ranks, 1);
    CHECK(shared.f32 == doctest::Approx(found.f32 / ranks));
    CHECK(shared.memory == doctest::Approx(found.memory / ranks));
    CHECK(shared.step == doctest::Approx(found.step * ranks));
    CHECK(shared.function == found.function);
  }
}

TEST_CASE("the points of a probe's curves are what a rank sends") {
  const std::vector<TimeCurve> curves = probed_curves(equal_times(2, 1e-3), 2);
  CHECK(curves[0].kind == OpKind::AllReduce);
  CHECK(curves[0].points.front().bytes == 4 * 16 * 2);
  CHECK(curves[2].kind == OpKind::AllGather);
  CHECK(curves[2].points.front().bytes == 4 * 16 * 2);
  for (const TimeCurve& curve : curves)
    for (size_t i = 1; i < curve.points.size(); ++i) CHECK(curve.points[i].bytes > curve.points[i - 1].bytes);
}

TEST_CASE("of a step that ranks take part in, the run of the last one to come counts, and of iterations the quantile") {
  Trace trace;
  trace.all.steps.emplace_back().name = "sum";
  const auto add = [&](int iteration, int lane, double seconds) {
    TimelineBox& box = trace.all.boxes.emplace_back();
    box.lane = lane, box.end = seconds;
    trace.of_box.push_back(iteration);
  };
  add(0, 0, 5), add(0, 1, 2);
  add(1, 0, 3), add(1, 1, 9);
  add(2, 0, 4), add(2, 1, 4);
  CHECK(seconds_of_steps(trace, 0.5).at("sum") == 3);
  CHECK(seconds_of_steps(trace, 0).at("sum") == 2);
}

TEST_CASE("a measured machine is written as it is read") {
  Machine machine;
  machine.ceilings = {"2 cores of a test", 101e9, 50e9, 1.5e9, 19.5e9, 0, 0, 4e-8, 50, 1};
  machine.archs = {"x86-64-v3"};
  machine.memory = int64_t{12} << 30;
  machine.ranks = 4;
  machine.levels = {{"shared memory",
                     4,
                     Link::Network,
                     2.6e10,
                     4e-7,
                     false,
                     {{OpKind::AllReduce, 2, {{4, 4e-7}, {1 << 20, 1.59e-4}}},
                      {OpKind::AllReduce, 4, {{6, 8e-7}}},
                      {OpKind::AllToAll, 2, {{100, 1e-6}}}}}};
  const std::string text = machine_text_of(machine, "measured");
  Diags diags;
  const std::optional<Machine> read = read_machine_text("m.yaml", text, diags);
  INFO(text << diags.text());
  REQUIRE(read);
  CHECK(machine_text_of(*read, "measured") == text);
  CHECK(read->name() == machine.name());
  CHECK(read->memory == machine.memory);
  CHECK(read->ceilings.f16 == doctest::Approx(1.5e9));
  REQUIRE(read->levels[0].curves.size() == 3);
  CHECK(read->levels[0].curves[0].points[1].seconds == doctest::Approx(1.59e-4));
  CHECK(read->levels[0].bandwidth == doctest::Approx(2.6e10));
}
