// The page of a plan: its figures are those of the table and of the schedule, and its bars are as long as these are
// large.
#include "cli/plan/plan_page.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include "cli/plan/plan_figures.h"
#include "cli/table.h"
#include "passes/cost/cost_model.h"

using namespace weftc;

namespace {

Machine four_ranks() {
  Machine machine;
  machine.ceilings = ceilings_of(Target());
  machine.ceilings.machine = "four <ranks>";
  machine.ranks = 4;
  NetworkLevel level;
  level.name = "link", level.ranks = 4, level.bandwidth = 1e9, level.latency = 1e-8;
  machine.levels = {level};
  return machine;
}

/// The text between two texts, from position `at` on; "" at the end. `at` moves to the position after them.
std::string between(const std::string& text, const std::string& open, const std::string& close, size_t& at) {
  const size_t begin = text.find(open, at);
  const size_t end = begin == text.npos ? text.npos : text.find(close, begin + open.size());
  at = end;
  return end == text.npos ? "" : text.substr(begin + open.size(), end - begin - open.size());
}

std::string first_between(const std::string& text, const std::string& open, const std::string& close) {
  size_t at = 0;
  return between(text, open, close, at);
}

std::vector<std::string> all_between(const std::string& text, const std::string& open, const std::string& close) {
  std::vector<std::string> found;
  for (size_t at = 0; at != text.npos;)
    if (std::string one = between(text, open, close, at); at != text.npos) found.push_back(std::move(one));
  return found;
}

/// The rows of a table but for its head, as HTML.
std::vector<std::string> rows_of(const std::string& page, const std::string& table) {
  const std::string body = first_between(page, "<table class=\"" + table + "\">", "</table>");
  std::vector<std::string> rows = all_between(body, "<tr", "</tr>");
  REQUIRE(!rows.empty());
  rows.erase(rows.begin());
  return rows;
}

std::vector<std::string> cells_of(const std::string& row) { return all_between(row, "<td class=\"n\">", "</td>"); }

double percent_of(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

double sum_of_widths(const std::string& row, const std::string& chart) {
  double sum = 0;
  const std::string drawn = first_between(row, "<svg class=\"bars " + chart + "\">", "</svg>");
  for (const std::string& width : all_between(drawn, "width=\"", "%\"")) sum += percent_of(width);
  return sum;
}

/// samples/mlp planned for four ranks.
struct PlannedPerceptron {
  const Machine machine = four_ranks();
  PlanRequest request{"plan.yaml", "weft: 1\n", machine, 4};
  LayoutPlans layouts;
  PlanReport report;
  std::string page;

  PlannedPerceptron() {
    Options options;
    options.model = "samples/mlp/mlp.onnxtxt", options.quiet = true;
    request.is_compared = true;
    Diags diags;
    std::optional<LayoutPlans> made = plan_layouts(options, request, diags);
    REQUIRE_MESSAGE(made, diags.text());
    REQUIRE(!made->plans.empty());
    layouts = std::move(*made);
    report = report_of_layouts(request, layouts);
    report.model = "a <model>", report.level = "shard";
    report.schedule = *schedule_of(request, layouts.plans.front(), diags);
    page = plan_page(report);
  }
};

}  // namespace

TEST_CASE("plan page: plans as in the table, then those that people know") {
  const PlannedPerceptron made;
  const std::vector<std::string> ways = rows_of(made.page, "ways");
  std::vector<KnownPlan> others = made.layouts.known;
  REQUIRE(others.size() == 4);
  others.erase(others.begin());  // the layouts of all ranks alike are among the plans
  REQUIRE(ways.size() == made.layouts.plans.size() + others.size());
  const double best = made.layouts.plans.front().seconds;
  for (size_t w = 0; w < ways.size(); ++w) {
    const bool is_known = w >= made.layouts.plans.size();
    const KnownPlan* known = is_known ? &others[w - made.layouts.plans.size()] : nullptr;
    CAPTURE(ways[w]);
    CHECK(ways[w].find(is_known ? known->name : mesh_text(made.request, made.layouts.plans[w])) != std::string::npos);
    if (known && !known->plan) continue;
    const ShardingPlan& plan = known ? *known->plan : made.layouts.plans[w];
    const std::vector<std::string> cells = cells_of(ways[w]);
    REQUIRE(cells.size() == 3);
    CHECK(cells[0] == (plan.is_bound ? "at least " : "") + seconds_text(plan.seconds));
    CHECK(cells[1] == fixed(plan.seconds / best, "%.2f"));
    CHECK(cells[2] == (plan.is_bound ? "" : bytes_text(plan.peak)));
  }
  CHECK(made.page.find("a <model>") == std::string::npos);
  CHECK(made.page.find("a &lt;model&gt;") != std::string::npos);
  CHECK(made.page.find("<script") == std::string::npos);
}

TEST_CASE("plan page: bars are as long as times and memories are large") {
  const PlannedPerceptron made;
  const std::vector<std::string> ways = rows_of(made.page, "ways");
  double longest = 0, most = 0;
  for (const PlanWay& way : made.report.ways) {
    if (way.time) longest = std::max(longest, way.time->seconds());
    most = std::max(most, static_cast<double>(way.memory));
  }
  for (size_t w = 0; w < ways.size(); ++w) {
    CAPTURE(ways[w]);
    const PlanWay& way = made.report.ways[w];
    const double seconds = way.time ? way.time->seconds() : 0;
    CHECK(sum_of_widths(ways[w], "time") == doctest::Approx(100 * seconds / longest).epsilon(1e-3));
    CHECK(sum_of_widths(ways[w], "memory") ==
          doctest::Approx(100 * static_cast<double>(way.memory) / most).epsilon(1e-3));
    const std::string exchanging = first_between(ways[w], "<rect class=\"exchanging\"", "/>");
    if (way.time && way.time->exchanging > 0)
      CHECK(percent_of(first_between(ways[w], "class=\"exchanging\" x=\"", "%")) ==
            doctest::Approx(100 * way.time->computing / longest).epsilon(1e-3));
  }
}

TEST_CASE("plan page: what is exchanged adds up to the table's collectives") {
  const PlannedPerceptron made;
  const ShardingPlan& data_parallel = *made.layouts.known[1].plan;
  const ShardingPlan& fsdp = *made.layouts.known[2].plan;
  CHECK(data_parallel.collectives() == 0);
  CHECK(fsdp.collectives() == 2);
  bool has_fsdp = false;
  for (const std::string& row : rows_of(made.page, "exchanges")) {
    if (row.find("FSDP") == std::string::npos) continue;
    has_fsdp = true;
    const std::vector<std::string> cells = cells_of(row);
    REQUIRE(cells.size() == 3);
    CHECK(row.find("AllGather over dp") != std::string::npos);
    CHECK(cells[0] == "2");
    CHECK(cells[1] == bytes_text(2 * 3 * 8 * 16 * 4 / 4));  // of each weight the other ranks' quarters
    CHECK(cells[2] == seconds_text(fsdp.exchanging()));
  }
  CHECK(has_fsdp);
}

TEST_CASE("plan page: every rank is drawn, and each entry of the schedule stands beside what a rank has of it") {
  PlannedPerceptron made;
  CHECK(all_between(made.page, "<text class=\"rank\"", "</text>").size() == 4);
  const ShardingPlan& plan = made.layouts.plans.front();
  REQUIRE(!plan.entries.empty());
  CHECK(all_between(made.page, "<tr><td><code>", "</code>").size() == plan.entries.size());
  for (const PlanEntryRow& entry : made.report.entries) {
    CHECK(made.report.schedule.find(entry.line) != std::string::npos);
    CHECK(entry.of_rank * 4 == entry.whole);
  }
  made.report.stages.assign(3, Mesh{{"dp", 40}, {"tp", 2}});
  const std::string large = plan_page(made.report);
  CHECK(all_between(large, "<text class=\"rank\"", "</text>").size() == 3 * 16 * 2);
  CHECK(large.find("the first 16 x 2 of 40 x 2 ranks") != std::string::npos);
  CHECK(large.find(">dp 15</text>") != std::string::npos);
  CHECK(large.find(">80</text>") != std::string::npos);  // the first rank of the second stage
  made.report.stages = {{{"tp", 3}}, {}};
  const std::string uneven = plan_page(made.report);
  CHECK(all_between(uneven, "<text class=\"rank\"", "</text>").size() == 4);
  CHECK(uneven.find("tp 3, one rank") != std::string::npos);
  CHECK(uneven.find("in 2 stages") != std::string::npos);
}

TEST_CASE("plan page: the size of the search, a bar for each number of ways") {
  const PlannedPerceptron made;
  const std::vector<std::string> searches = rows_of(made.page, "searches");
  REQUIRE(searches.size() == made.report.searches.size());
  CHECK(searches.size() == meshes_of(4).size());
  for (size_t s = 0; s < searches.size(); ++s) {
    const SearchRow& row = made.report.searches[s];
    CAPTURE(searches[s]);
    CHECK(cells_of(searches[s])[0] == std::to_string(row.ops));
    double before = 0, after = 0;
    for (const std::string& bar : all_between(searches[s], "<rect class=\"left\"", ">"))
      before += percent_of(first_between(bar, " height=\"", "\""));
    for (const std::string& bar : all_between(searches[s], "<rect class=\"computing\"", ">"))
      after += percent_of(first_between(bar, " height=\"", "\""));
    CHECK(before == doctest::Approx(40).epsilon(1e-2));
    CHECK(after == doctest::Approx(40).epsilon(1e-2));
  }
}

TEST_CASE("plan page: a mesh without layouts that fit, a known plan that cannot run, and a limit of memory are shown") {
  PlannedPerceptron made;
  PlanReport& report = made.report;
  report.memory = made.layouts.known[0].plan->peak / 2;
  report.ways.back().refused = "too <little> memory";
  report.searches.back() = {"tp 4", "no layouts fit"};
  const std::string page = plan_page(report);
  CHECK(page.find("no layouts fit") != std::string::npos);
  CHECK(page.find("<small class=\"refused\">too &lt;little&gt; memory</small>") != std::string::npos);
  CHECK(page.find("<line class=\"limit\"") != std::string::npos);
  CHECK(made.page.find("<line class=\"limit\"") == std::string::npos);
}
