// Orders of pipelines as people see them: the picture of a terminal, the section of a page, and what a trace says.
#include <doctest/doctest.h>

#include <fstream>

#include "cli/measured_order.h"
#include "cli/order_page.h"
#include "cli/order_text.h"
#include "cli/process.h"
#include "test/passes/pipelining/staged_pipelines.h"

using namespace weftc;

namespace {

OrderPicture shown_order(int places, TestPasses passes, PipelineOrder order, int micro_batches) {
  StagedPipeline pipeline = staged(row_of_stages(rounds(places, 1)), passes);
  std::vector<std::string> names;
  for (size_t b = 0; b < pipeline.kind.size(); ++b) {
    pipeline.problem.blocks[b].time *= 1000;  // microseconds
    const BlockKind kind = pipeline.kind[b];
    const char* part = kind == BlockKind::Forward ? "forward" : kind == BlockKind::Backward ? "backward" : "weight";
    names.push_back(format("s{}_{}", pipeline.stage[b], part));
  }
  const OrderedTurns named = named_order(pipeline, order, micro_batches);
  REQUIRE(named.refusal.empty());
  return picture_of(pipeline, named.turns, micro_batches, {}, names);
}

std::string trace_event(int rank, int stream, double begin, double length, double waited, const std::string& block,
                        int iteration = 0) {
  return format(R"({"ph": "X", "pid": {}, "tid": {}, "ts": {}, "dur": {}, "name": "n", "cat": "computation", "args": )",
                rank, stream, begin, length) +
         format(R"({"iteration": {}, "waited": {}{}}})", iteration, waited, block);
}

std::string of_block(const char* name, const char* pass, int micro_batch) {
  return format(R"(, "block": "{}", "pass": "{}", "micro_batch": {})", name, pass, micro_batch);
}

/// The result of reading a trace with these events.
std::optional<Trace> trace_of_events(const std::vector<std::string>& events, Diags& diags) {
  const WorkFolder folder;
  const std::string path = folder.path() + "/trace.json";
  std::ofstream(path) << "{\"traceEvents\": [\n" << join(events, ",\n") << "\n]}\n";
  return read_traces({path}, diags);
}

size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("orders: the picture of a terminal") {
  const OrderPicture picture = shown_order(4, TestPasses::Split, PipelineOrder::ZbH1, 6);
  const std::string wanted = R"(order of 6 micro-batches on 4 ranks, predicted
  21 us, bubble 14 %; no order is shorter
  period of 1 micro-batch: 3 us, 2 times; warm-up 9 us, drain 6 us
          | warm-up                     | period  |         | drain               waits  at the peak
  rank 0  0--1---2--3--..........A===a~~4--B===b~~5--C===c~~D==d~~~E==e~~F===f~~   14 %      8 bytes
  rank 1  ...0---1--2--.......A==3---B==a~~4---C==b~~5---D==c~~E===d~~F==e~~~f~~   14 %      7 bytes
  rank 2  .......0--1--....A==2--B===3--C==a~~~4--D==b~~~5--E==c~~~F==d~~e~~~f~~   14 %      6 bytes
  rank 3  ..........0--A===1--B==2---C==3--D===a~~4--E===b~~5--F===c~~d~~e~~~f~~   14 %      5 bytes
  (0- 1-: forward passes of micro-batches 0, 1; A= B=: backward; a~ b~: of weights)
)";
  CHECK(order_text(picture, "predicted") == wanted);
}

TEST_CASE("orders: a rank that runs several stages has a line for each") {
  const StagedPipeline pipeline = staged({{{0}, {}}, {{0, 1}, {0}}}, TestPasses::Whole);
  const OrderedTurns named = named_order(pipeline, PipelineOrder::OneFOneB, 2);
  const OrderPicture picture =
      picture_of(pipeline, named.turns, 2, {{{0}, 1, true, {}}},
                 {"first_forward", "second_forward", "first_backward", "second_backward", "first_update"});
  CHECK(picture.stages_of(picture.lanes[0]) == std::vector<std::string>{"first", "second"});
  const std::string text = order_text(picture, "predicted");
  CHECK_MESSAGE(text.find("\n  rank 0  first   0-") != std::string::npos, text);
  CHECK_MESSAGE(text.find("\n          second  .") != std::string::npos, text);
  CHECK_MESSAGE(text.find("\n  rank 1          .") != std::string::npos, text);
  const std::string page = order_section({"t", "s", picture}, 1);
  CHECK(page.find(">second 1</text>") != std::string::npos);
}

TEST_CASE("orders: any picture fits a terminal, however small its boxes are") {
  for (const int places : {2, 16})
    for (const int micro_batches : {1, 12, 64})
      for (const TestPasses passes : {TestPasses::Forward, TestPasses::Whole}) {
        const std::string text = order_text(shown_order(places, passes, PipelineOrder::OneFOneB, micro_batches), "x");
        for (const std::string& line : split(text, '\n')) CHECK(line.size() <= 100);
        CHECK(occurrences(text, "\n  rank ") == static_cast<size_t>(places));
        const bool is_cut = micro_batches == 64;
        CHECK(occurrences(text, "//") == (is_cut ? static_cast<size_t>(places) + 1 : 0));
      }
}

TEST_CASE("orders: the section of a page") {
  const OrderPicture picture = shown_order(4, TestPasses::Split, PipelineOrder::ZbH1, 6);
  const std::string page = order_section({"<b>", "a & b", picture}, 3);
  CHECK(page.find("<h2>&lt;b&gt;</h2>") != std::string::npos);
  CHECK(occurrences(page, "<rect class=\"turn ") == 4 * 6 * 3);
  for (const char* pass : {"forward", "backward", "weight"})
    CHECK(occurrences(page, format("<rect class=\"turn {}\"", pass)) == 4 * 6);
  CHECK(occurrences(page, "<path class=\"held\"") == 4);
  CHECK(page.find("s2_backward, micro-batch 5&#10;rank 2: 1 us from ") != std::string::npos);
  for (const char* part : {"warm-up", "period", "drain"})
    CHECK(page.find(format("<text class=\"n1\" x=\"5\" y=\"14\">{}</text>", part)) != std::string::npos);
  CHECK(page.find("name=\"order3\"") != std::string::npos);
}

TEST_CASE("orders: what a trace says of a pipeline") {
  Diags diags;
  const std::string data = R"({"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "recv"}})";
  const std::optional<Trace> trace =
      trace_of_events({data, trace_event(0, 0, 100, 10, 0, of_block("a", "forward", 0)),
                       trace_event(0, 0, 110, 10, 0, of_block("a", "forward", 0)),
                       trace_event(0, 0, 120, 20, 0, of_block("a", "forward", 1)),
                       trace_event(1, 1, 100, 25, 0, of_block("b", "forward", 0)),  // brings data
                       trace_event(1, 0, 100, 40, 20, of_block("b", "forward", 0)),
                       trace_event(1, 0, 140, 10, 5, of_block("b", "forward", 1)),
                       trace_event(1, 0, 155, 5, 0, of_block("b", "forward", 1)),
                       trace_event(1, 0, 160, 7, 0, of_block("end", "once", 1)),
                       trace_event(0, 0, 300, 10, 0, of_block("a", "forward", 0), 1)},
                      diags);
  REQUIRE(trace);
  const std::optional<OrderPicture> picture = measured_order(*trace, 0);
  REQUIRE(picture);
  REQUIRE(picture->lanes.size() == 2);
  CHECK(picture->micro_batches == 2);
  CHECK(picture->length == 60'000);
  CHECK(picture->lanes[0].busy == 40'000);
  CHECK(picture->lanes[1].busy == 30'000);
  CHECK(picture->bubble() == doctest::Approx(1 - 35.0 / 60));
  REQUIRE(picture->lanes[1].boxes.size() == 3);
  const PictureBox& second = picture->lanes[1].boxes[1];
  CHECK(second.begin == 45'000);
  CHECK(second.end == 60'000);
  CHECK(second.busy == 10'000);
  CHECK(picture->blocks[static_cast<size_t>(picture->lanes[1].boxes[2].block)].pass == PicturePass::Once);
  CHECK(picture->warm_up_end == 20'000);
  CHECK(picture->drain_begin == 40'000);
  CHECK(measured_bubble(*trace) == doctest::Approx(0));  // of the second iteration, the lower of two
  CHECK(order_section({"t", "s", *picture}, 0).find("busy for 10.0 us of that") != std::string::npos);
}

TEST_CASE("orders: traces of no pipeline, and of passes that there are not") {
  Diags diags;
  const std::optional<Trace> trace = trace_of_events({trace_event(0, 0, 1, 1, 0, "")}, diags);
  REQUIRE(trace);
  CHECK_FALSE(measured_order(*trace, 0));
  CHECK_FALSE(measured_bubble(*trace));
  CHECK_FALSE(trace_of_events({trace_event(0, 0, 1, 1, 0, of_block("a", "sideways", 0))}, diags));
  CHECK(diags.text().find("no 'pass' of its 'block'") != std::string::npos);
}
