// Timelines as people see them: lanes of a terminal, the page, traces and what is wrong with them.
#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>

#include "cli/process.h"
#include "cli/timeline_page.h"
#include "cli/timeline_text.h"
#include "cli/trace_file.h"

using namespace weftc;

namespace {

/// Two ranks; on each, a product of 6 s, and a sum of 3 s of which 2 s run beside it.
Timeline two_ranks(const std::string& name) {
  Timeline line;
  line.title = name, line.source = name, line.seconds = 8;
  line.steps.resize(2);
  line.steps[0].name = line.steps[0].nodes = line.steps[0].transform = line.steps[0].where = name;
  line.steps[1].name = "sum", line.steps[1].communicates = true;
  for (int rank = 0; rank < 2; ++rank) {
    line.lanes.push_back({rank, "compute"});
    line.lanes.push_back({rank, name});
    TimelineBox product, sum;
    product.lane = 2 * rank, product.end = 6, product.at = name;
    sum.lane = 2 * rank + 1, sum.step = 1, sum.begin = 4, sum.end = 7, sum.awaited = rank == 0 ? 0 : 2;
    line.boxes.push_back(product);
    line.boxes.push_back(sum);
  }
  return line;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// A file that does not outlive its test.
struct TraceText {
  explicit TraceText(const std::string& text) { std::ofstream(path) << text; }
  const WorkFolder folder;
  const std::string path = folder.path() + "/trace.json";
};

std::string event(int rank, int stream, double begin, double length, const std::string& name, const std::string& more) {
  return format(R"({"ph": "X", "pid": {}, "tid": {}, "ts": {}, "dur": {}, "name": "{}", )", rank, stream, begin, length,
                name) +
         more + "}";
}

std::string computes(int iteration, double waited = 0) {
  return format(R"("cat": "computation", "args": {"nodes": "n", "index": 0, "iteration": {}, "waited": {}})", iteration,
                waited);
}
std::string communicates(int iteration, double waited) {
  return format(R"("cat": "communication", "args": {"iteration": {}, "waited": {}})", iteration, waited);
}

std::string trace_of(const std::vector<std::string>& events) {
  return "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" + join(events, ",\n") + "\n]}\n";
}

/// The refusal of a trace with this text.
std::string refusal(const std::string& text) {
  const TraceText file(text);
  Diags diags;
  CHECK_FALSE(read_traces({file.path}, diags));
  CHECK(diags.exit_code() == 1);
  const std::string all = diags.text();
  const size_t at = all.find("trace.json");
  return at == std::string::npos ? all : all.substr(at + 10, all.find('\n') - at - 10);
}

}  // namespace

TEST_CASE("times and counts for people") {
  CHECK(time_text(0) == "0 ns");
  CHECK(time_text(9.996e-7) == "1.00 us");
  CHECK(time_text(1.25e-2) == "12.5 ms");
  CHECK(time_text(250) == "250 s");
  CHECK(metric_text(512) == "512 ");
  CHECK(metric_text(101e9) == "101 G");
}

TEST_CASE("ranks by what they run") {
  Timeline line = two_ranks("comm");
  std::vector<RankClass> classes = rank_classes(line);
  REQUIRE(classes.size() == 1);
  CHECK(classes[0].ranks == std::vector<int>{0, 1});
  line.boxes[2].step = 1;
  CHECK(rank_classes(line).size() == 2);
  CHECK(ranks_text({3}) == "rank 3");
  CHECK(ranks_text({2, 3, 4}) == "ranks 2 to 4");
  CHECK(ranks_text({0, 2}) == "ranks 0, 2");
}

TEST_CASE("a lane fits a terminal, and shows what fills most of a column") {
  const std::string text = timeline_text(two_ranks("comm"));
  for (const std::string& row : split(text, '\n')) CHECK(row.size() <= 100);
  CHECK(text.find("8 s: computation 6 s, communication 3 s, either 7 s; hidden: 66.7 % of the shorter") !=
        std::string::npos);
  const size_t first = text.find(" compute ") + 9, second = text.find(" comm ") + 6;
  const std::string computes = text.substr(first, text.find('\n', first) - first);
  const std::string communicates = text.substr(second, text.find('\n', second) - second);
  const auto columns = static_cast<double>(trim(computes).size());
  CHECK(static_cast<double>(count_of(computes, "#")) == doctest::Approx(columns * 6 / 8).epsilon(0.05));
  CHECK(static_cast<double>(count_of(communicates, "=")) == doctest::Approx(columns * 3 / 8).epsilon(0.08));
}

TEST_CASE("a timeline in which nothing takes time") {
  Timeline line = two_ranks("comm");
  for (TimelineBox& box : line.boxes) box.ready = box.begin = box.end = 0;
  for (const double seconds : {0., 1e-310}) {
    line.seconds = seconds;
    CHECK(timeline_text(line).find("nothing runs") != std::string::npos);
    CHECK(timeline_page(line).find("nan") == std::string::npos);
  }
  CHECK(timeline_page({}).find("</html>") != std::string::npos);
}

TEST_CASE("nothing in a name breaks out of the page") {
  const std::string name = "</title></script><b a='1' b=\"2\">&amp;\x01\xff$x";
  const std::string page = timeline_page(two_ranks(name));
  CHECK(page.find("<b a=") == std::string::npos);
  CHECK(page.find("</script>") == std::string::npos);
  CHECK(page.find("&amp;amp;") != std::string::npos);
  CHECK(page.find("&lt;/script&gt;&lt;b a=&#39;1&#39; b=&quot;2&quot;&gt;") != std::string::npos);
  CHECK(page.find('\x01') == std::string::npos);
  CHECK(page.find('\xff') == std::string::npos);
  CHECK(page.find("<script") == std::string::npos);
  CHECK(page.find("http") == page.find("http://www.w3.org/1999/xhtml"));
}

TEST_CASE("a page holds every step while they are few, and neighbours together where they are many") {
  Timeline line = two_ranks("comm");
  CHECK(count_of(timeline_page(line), "<title>") == 5);  // the page's own, and one a box
  line.boxes.clear();
  for (int i = 0; i < 100000; ++i) {
    TimelineBox box;
    box.begin = box.ready = 8e-5 * i, box.end = 8e-5 * (i + 1);
    line.boxes.push_back(box);
  }
  const std::string page = timeline_page(line);
  CHECK(page.size() < 4'000'000);
  CHECK(page.find(" steps: comm") != std::string::npos);
}

TEST_CASE("a trace: waits come off, outer steps are left out, the median iteration is chosen") {
  const std::string outer = event(0, 0, 1000, 60, "if", computes(0));
  const TraceText file(trace_of({
      R"({"ph": "M", "pid": 0, "tid": 1, "name": "thread_name", "args": {"name": "comm"}})",
      outer,
      event(0, 0, 1010, 40, "fc", computes(0)),
      event(0, 1, 1000, 60, "sum", communicates(0, 30)),
      event(0, 0, 2000, 20, "fc", computes(1)),
      event(0, 1, 2000, 30, "sum", communicates(1, 10)),
      event(0, 0, 3000, 90, "fc", computes(2)),
      event(0, 1, 3000, 30, "sum", communicates(2, 10)),
  }));
  Diags diags;
  const std::optional<Trace> trace = read_traces({file.path}, diags);
  INFO(diags.text());
  REQUIRE(trace);
  CHECK(trace->iterations.size() == 3);
  CHECK(median_iteration(*trace) == 0);
  const Timeline one = iteration_of(*trace, 0);
  CHECK(one.seconds == doctest::Approx(60e-6));
  REQUIRE(one.boxes.size() == 2);
  CHECK(one.lanes[static_cast<size_t>(one.boxes[1].lane)].stream == "comm");
  const BusyTimes busy = busy_times(one)[0];
  CHECK(busy.computation == doctest::Approx(40e-6));    // 10 to 50
  CHECK(busy.communication == doctest::Approx(30e-6));  // 30 to 60
  CHECK(busy.hidden() == doctest::Approx(2. / 3));
}

TEST_CASE("traces of several files are one run's: a rank stands in one of them") {
  const TraceText first(trace_of({event(0, 0, 5, 1, "a", computes(0))}));
  const TraceText second(trace_of({event(1, 0, 4, 1, "a", computes(0))}));
  Diags diags;
  const std::optional<Trace> both = read_traces({first.path, second.path}, diags);
  REQUIRE(both);
  CHECK(both->all.seconds == doctest::Approx(2e-6));
  CHECK_FALSE(read_traces({first.path, first.path}, diags));
  CHECK(diags.text().find("rank 0 is also in") != std::string::npos);
}

TEST_CASE("what is no trace is refused where it goes wrong") {
  CHECK(refusal("").find(":1:1: error: ") == 0);
  CHECK(refusal("{}") == ":1:1: error: there is no list 'traceEvents' [trace-text]");
  CHECK(refusal("{\"traceEvents\": 7}") == ":1:1: error: there is no list 'traceEvents' [trace-text]");
  CHECK(refusal("{\"a\": {\"traceEvents\": []}}") == ":1:1: error: there is no list 'traceEvents' [trace-text]");
  CHECK(refusal("{\"traceEvents\": [\n{\"ph\": \"X") ==
        ":2:10: error: syntax error while parsing value - invalid string: missing closing quote [trace-text]");
  CHECK(refusal("{\"traceEvents\": []} x").find(":1:21: error: syntax error while parsing value") == 0);
  CHECK(refusal("{\"traceEvents\": [{\"ph\": \"\\q\"}]}").find(":1:27: error: ") == 0);
  CHECK(refusal("{\"a\": " + std::string(100000, '[')).find("unexpected end of input") != std::string::npos);
  CHECK(refusal("{\"traceEvents\": [{\"pid\": 1.5}]}") ==
        ":1:18: error: 'pid' of this event is no integer from 0 to 65536 [trace-text]");
  CHECK(refusal("{\"traceEvents\": [{\"dur\": nan}]}").find("invalid literal") != std::string::npos);
  CHECK(refusal("{\"traceEvents\": [{\"dur\": 1e999}]}").find("number overflow") != std::string::npos);
  CHECK(refusal(trace_of({})).find("the trace holds no step") != std::string::npos);
}

TEST_CASE("an event that lacks something is refused") {
  CHECK(refusal(trace_of({R"({"ph": "X", "pid": 0})"})).find(":2:1: error: this event lacks one of") == 0);
  const std::string good = event(0, 0, 1, 1, "a", computes(0));
  CHECK(refusal(trace_of({good, R"({"ph": "X"})"})).find(":3:1: error: this event lacks one of") == 0);
  CHECK(refusal(trace_of({event(0, 0, 1, 1, "a", R"("args": {})")})).find("neither that it is") != std::string::npos);
  CHECK(refusal(trace_of({event(0, 0, 1, 1, "a", R"("cat": "computation")")})).find("its 'iteration'") !=
        std::string::npos);
  CHECK(refusal(trace_of({event(0, 0, 1, 1, "a", computes(0, 2))})).find("waited longer") != std::string::npos);
}
