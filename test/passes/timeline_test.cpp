// Predicted timelines against ones drawn by hand: a step takes 1 second, a meeting of ranks 2 more.
#include "passes/cost/timeline.h"

#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

Timeline timeline_of(const Plan& plan, const Module& module) {
  return predict_timeline(plan, CostModel(plan, module, Ceilings{"a test", 1e30, 1e30, 1e30, 1e30, 1e30, 2, 1, 1}));
}

Timeline timeline_of(const std::string& model, const std::string& yaml) {
  const Planned made = plan_of(model, yaml);
  return timeline_of(made.plan, *made.scheduled->module);
}

/// "fc 0..1, proj 1..2 (chunk 0)": a lane, without fractions.
std::string lane_text(const Timeline& line, int rank, const std::string& stream) {
  std::vector<std::string> parts;
  for (const TimelineBox& box : line.boxes) {
    const TimelineLane& lane = line.lanes[static_cast<size_t>(box.lane)];
    if (lane.rank != rank || lane.stream != stream) continue;
    parts.push_back(format("{} {}..{}{}", line.steps[static_cast<size_t>(box.step)].name, std::lround(box.begin),
                           std::lround(box.end), box.at.empty() ? "" : " (" + box.at + ")"));
  }
  return join(parts, ", ");
}

}  // namespace

TEST_CASE("one after the other") {
  const Timeline line = timeline_of(kMlp, kTp2);
  CHECK(lane_text(line, 1, "compute") == "fc 0..1, proj 1..2, proj.sum 2..5, residual 5..6");
  CHECK(line.seconds == doctest::Approx(6));
  const BusyTimes busy = busy_times(line)[0];
  CHECK(busy.computation == doctest::Approx(3));
  CHECK(busy.communication == doctest::Approx(3));
  CHECK(busy.hidden() == doctest::Approx(0));
}

TEST_CASE("four chunks: each sum runs beside the next product, which has two buffers") {
  const Timeline line = timeline_of(kMlp, kTp2Streams);
  CHECK(lane_text(line, 0, "compute") ==
        "fc 0..1, proj 1..2 (chunk 0), proj 2..3 (chunk 1), proj 5..6 (chunk 2), proj 8..9 (chunk 3), residual 14..15");
  CHECK(lane_text(line, 0, "comm") ==
        "proj.sum 2..5 (chunk 0), proj.sum 5..8 (chunk 1), proj.sum 8..11 (chunk 2), proj.sum 11..14 (chunk 3)");
  const BusyTimes busy = mean_times(busy_times(line));
  CHECK(busy.computation == doctest::Approx(6));
  CHECK(busy.communication == doctest::Approx(12));
  CHECK(busy.both == doctest::Approx(15));
  CHECK(busy.hidden() == doctest::Approx(0.5));  // (12 + 6 - 15) / 6
}

TEST_CASE("one kernel for all chunks is launched once") {
  std::string yaml = kTp2Overlap;
  yaml.replace(yaml.find("mechanism: streams"), 18, "mechanism: signal");
  const Planned made = plan_of(kMlp, yaml);
  const Ceilings ceilings{"a test", 1e30, 1e30, 1e30, 512, 1e30, 2, 1, 1};  // a chunk of proj moves 512 bytes
  const Timeline line = predict_timeline(made.plan, CostModel(made.plan, *made.scheduled->module, ceilings));
  for (const TimelineBox& box : line.boxes) {
    const std::string& name = line.steps[static_cast<size_t>(box.step)].name;
    if (name == "proj") CHECK(box.end - box.begin == doctest::Approx(box.at == "chunk 0" ? 2 : 1));
    if (name == "far") CHECK(box.end - box.begin == doctest::Approx(3 + 416. / 512));
  }
  Ceilings few = ceilings;
  few.chunked = 0.5;
  for (const TimelineBox& box : predict_timeline(made.plan, CostModel(made.plan, *made.scheduled->module, few)).boxes)
    if (line.steps[static_cast<size_t>(box.step)].name == "proj" && box.at == "chunk 1")
      CHECK(box.end - box.begin == doctest::Approx(2));
}

TEST_CASE("a wait names what it waited for, and the longest chain has no gap") {
  const Timeline line = timeline_of(kMlp, kTp2Streams);
  double end = 0;
  for (const TimelineBox& box : line.boxes) {
    const std::string& name = line.steps[static_cast<size_t>(box.step)].name;
    if (name != "proj" || box.at != "chunk 2" || line.lanes[static_cast<size_t>(box.lane)].rank != 0) continue;
    CHECK(box.ready == doctest::Approx(3));
    REQUIRE(box.awaited >= 0);
    const TimelineBox& other = line.boxes[static_cast<size_t>(box.awaited)];
    CHECK(line.steps[static_cast<size_t>(other.step)].name == "proj.sum");
    CHECK(other.at == "chunk 0");
  }
  std::vector<TimelineBox> chain;
  for (const TimelineBox& box : line.boxes)
    if (box.critical) chain.push_back(box);
  std::sort(chain.begin(), chain.end(), [](const TimelineBox& a, const TimelineBox& b) { return a.begin < b.begin; });
  for (const TimelineBox& box : chain) {
    CHECK(box.begin <= end + 1e-9);
    end = std::max(end, box.end);
  }
  CHECK(end == doctest::Approx(line.seconds));
}

TEST_CASE("stages: a transfer takes both of its ranks, and each stage goes on as soon as it may") {
  const Timeline line = timeline_of(kMlp, kTwoStages);
  CHECK(lane_text(line, 0, "compute") ==
        "fc 0..1 (micro-batch 0), fc 1..2 (micro-batch 1), fc 4..5 (micro-batch 2), fc 7..8 (micro-batch 3)");
  CHECK(lane_text(line, 1, "recv").starts_with("act.to.second.recv 1..4 (micro-batch 0), act.to.second.recv 4..7"));
  CHECK(lane_text(line, 0, "send").starts_with("act.to.second.send 1..4 (micro-batch 0), act.to.second.send 4..7"));
  CHECK(line.seconds == doctest::Approx(28));
}

TEST_CASE("a loop and a branch are counted, and said to be") {
  const std::string branch = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[4] x, bool c) => (float[4] y)
{ y = If (c) <then_branch = t () => (float[4] p) { p = Exp(x) }, else_branch = e () => (float[4] q) { q = Neg(x) }> })";
  const Timeline line = timeline_of(branch, "");
  REQUIRE(line.notes.size() == 1);
  CHECK(line.notes[0] == "an If counts with its first branch");
}

TEST_CASE("busy times count each moment once") {
  Timeline line;
  line.lanes = {{0, "compute"}, {0, "comm"}, {1, "compute"}};
  line.steps.resize(2);
  line.steps[1].communicates = true;
  const auto box = [](int lane, int step, double begin, double end) {
    TimelineBox made;
    made.lane = lane, made.step = step, made.begin = begin, made.end = end;
    return made;
  };
  line.boxes = {box(0, 0, 0, 4), box(0, 1, 6, 7), box(1, 1, 3, 5), box(1, 1, 4, 6)};
  const std::vector<BusyTimes> ranks = busy_times(line);
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[0].computation == doctest::Approx(4));
  CHECK(ranks[0].communication == doctest::Approx(4));  // 3 to 7
  CHECK(ranks[0].both == doctest::Approx(7));
  CHECK(ranks[0].hidden() == doctest::Approx(0.25));
  CHECK(ranks[1].both == 0);
  CHECK(ranks[1].hidden() == 0);
}
