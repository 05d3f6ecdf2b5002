// `weft solve`: pipeline problems as a file, their best schedules as a table or as JSON; partition problems, their best
// choices.
#include "passes/partition/solve.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <thread>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/order_search.h"
#include "cli/partition_file.h"
#include "cli/pipeline_file.h"
#include "cli/table.h"
#include "passes/pipelining/makespan.h"

namespace weftc {

namespace {

using Moment = std::chrono::steady_clock::time_point;

struct Solution {
  std::string name;
  PeriodicSchedule schedule;
  std::vector<Makespan> makespans;  // of as many micro-batches as were asked for
  double seconds = 0;               // of a core, for the periodic schedule
};

/// The cases that --case asks for, or all.
std::vector<PipelineCase> chosen(std::vector<PipelineCase> cases, const Options& options, Diags& diags) {
  if (options.cases.empty()) return cases;
  std::vector<PipelineCase> found;
  std::vector<std::string> names;
  for (const PipelineCase& one : cases) names.push_back(one.name);
  for (const std::string& wanted : options.cases) {
    const auto at = std::find(names.begin(), names.end(), wanted);
    if (at == names.end())
      diags.error("problem-case", Loc::in_file(options.problems), "there is no case '{}'{}", printable(wanted),
                  did_you_mean(wanted, names));
    else
      found.push_back(cases[static_cast<size_t>(at - names.begin())]);
  }
  return found;
}

Solution solve(const PipelineCase& one, const Options& options) {
  Solution solution;
  solution.name = one.name;
  const std::clock_t begin = std::clock();
  const double steps = options.effort * static_cast<double>(usual_steps(one.problem, options.per_period));
  solution.schedule = find_periodic_schedule(one.problem, options.per_period, static_cast<uint64_t>(steps));
  solution.seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  for (const int count : options.micro_batches)
    solution.makespans.push_back(find_makespan(one.problem, solution.schedule, count));
  return solution;
}

/// A period of several micro-batches as the time of one: "16/3".
std::string per_micro_batch(int64_t period, int copies) {
  return period % copies == 0 ? std::to_string(period / copies) : format("{}/{}", period, copies);
}
std::string json_per_micro_batch(int64_t period, int copies) {
  if (period % copies == 0) return std::to_string(period / copies);
  return fixed(static_cast<double>(period) / copies, "%.15g");
}

std::string json_numbers(const std::vector<int64_t>& numbers) {
  std::vector<std::string> items;
  for (const int64_t number : numbers) items.push_back(std::to_string(number));
  return json_list(items);
}
std::string json_starts(const PipelineStarts& starts) {
  std::vector<std::string> items;
  for (const std::vector<int64_t>& one : starts) items.push_back(json_numbers(one));
  return json_list(items);
}
const char* json_truth(bool value) { return value ? "true" : "false"; }

/// {"16": value, ...}, one for each number of micro-batches.
template <class Value>
std::string json_by_count(const Solution& solution, const Options& options, Value value) {
  std::vector<std::pair<std::string, std::string>> fields;
  for (size_t i = 0; i < solution.makespans.size(); ++i)
    fields.push_back({std::to_string(options.micro_batches[i]), value(solution.makespans[i])});
  return json_object(fields);
}

std::string json_of(const Solution& solution, const Options& options) {
  const PeriodicSchedule& schedule = solution.schedule;
  return json_object({
      {"name", json_string(solution.name)},
      {"period", json_per_micro_batch(schedule.period, schedule.copies)},
      {"proved", json_truth(schedule.period == schedule.least_period)},
      {"lower_bound", json_per_micro_batch(schedule.least_period, schedule.copies)},
      {"micro_batches_per_period", std::to_string(schedule.copies)},
      {"period_length", std::to_string(schedule.period)},
      {"start_of_micro_batch_0", json_numbers(schedule.starts.front())},
      {"starts_in_period", json_starts(schedule.starts)},
      {"peak_memory", json_numbers(schedule.peaks)},
      {"memory", std::to_string(schedule.memory())},
      {"memory_proved", json_truth(schedule.memory() == schedule.least_memory)},
      {"memory_lower_bound", std::to_string(schedule.least_memory)},
      {"makespan", json_by_count(solution, options, [](const Makespan& one) { return std::to_string(one.length); })},
      {"makespan_lower_bound",
       json_by_count(solution, options, [](const Makespan& one) { return std::to_string(one.least); })},
      {"starts", json_by_count(solution, options, [](const Makespan& one) { return json_starts(one.starts); })},
      {"seconds", fixed(solution.seconds, "%.3f")},
  });
}

std::vector<std::string> row_of(const Solution& solution) {
  const PeriodicSchedule& schedule = solution.schedule;
  const auto standing_of = [](int64_t value, int64_t least) { return standing(value == least, std::to_string(least)); };
  std::vector<std::string> row = {
      printable(solution.name),
      per_micro_batch(schedule.period, schedule.copies),
      standing(schedule.period == schedule.least_period, per_micro_batch(schedule.least_period, schedule.copies)),
      std::to_string(schedule.memory()),
      standing_of(schedule.memory(), schedule.least_memory),
      fixed(solution.seconds, "%.3f"),
  };
  for (const Makespan& one : solution.makespans) {
    row.push_back(std::to_string(one.length));
    row.push_back(standing_of(one.length, one.least));
  }
  return row;
}

void print(const std::vector<Solution>& solutions, const Options& options) {
  if (options.json) {
    std::vector<std::string> items;
    for (const Solution& solution : solutions) items.push_back(json_of(solution, options));
    std::printf("%s\n", json_lines(items).c_str());
    return;
  }
  std::vector<std::string> head = {"case", "period", "", "memory", "", "seconds"};
  for (const int count : options.micro_batches) {
    head.push_back(format("{} micro-batches", count));
    head.push_back("");
  }
  TableRows rows = {head};
  for (const Solution& solution : solutions) rows.push_back(row_of(solution));
  std::printf("%s", table_text(rows).c_str());
  std::printf(
      "A period is the time of one micro-batch, with %d in each period; memory is the highest peak of a device.\n",
      options.per_period);
}

void print(const PartitionCase& one, const PartitionSolution& solution, double seconds, bool is_json) {
  const std::string name = one.name.empty() ? "problem" : one.name;
  if (is_json) {
    const std::vector<int64_t> choices(solution.choices.begin(), solution.choices.end());
    std::printf("%s\n", json_object({{"name", json_string(one.name)},
                                     {"cost", std::to_string(solution.cost)},
                                     {"choices", json_numbers(choices)},
                                     {"lower_bound", std::to_string(solution.lower_bound)},
                                     {"proved", json_truth(solution.is_proved())},
                                     {"seconds", fixed(seconds, "%.3f")}})
                            .c_str());
    return;
  }
  const TableRows rows = {
      {"problem", "nodes", "edges", "cost", "", "peak usage", "limit", "seconds"},
      {printable(name), std::to_string(one.problem.nodes.size()), std::to_string(one.problem.edges.size()),
       std::to_string(solution.cost), standing(solution.is_proved(), std::to_string(solution.lower_bound)),
       std::to_string(peak_usage(one.problem, solution.choices)), std::to_string(one.problem.limit),
       fixed(seconds, "%.1f")}};
  std::printf("%s", table_text(rows).c_str());
}

int run_partition(const Options& options, const std::string& text, Moment begin) {
  Diags diags;
  if (!options.cases.empty()) {
    diags.error("partition-case", Loc::in_file(options.problems),
                "--case chooses among pipelines, and this is a partition problem");
    finish(diags);
    return kUsage;
  }
  const auto seconds_since_begin = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const std::optional<PartitionCase> one = read_partition(options.problems, text, diags);
  if (!one) return finish(diags);
  const int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const PartitionSolution solution = solve_partition(
      one->problem, {options.seconds - seconds_since_begin(), {.threads = threads, .seed = options.seed}});
  if (solution.choices.empty())
    diags.error("partition-impossible", Loc::in_file(options.problems), "{}",
                solution.is_impossible ? "no choice of strategies keeps the limit of usage and forbids no pair"
                                       : "no choice of strategies was found that keeps the limit of usage and forbids "
                                         "no pair; more --seconds may help");
  else
    print(*one, solution, seconds_since_begin(), options.json);
  return finish(diags);
}

}  // namespace

int run_solve(const Options& options) {
  const Moment begin = std::chrono::steady_clock::now();
  Diags diags;
  const std::optional<std::string> text = read_problem_text(options.problems, diags);
  if (text && is_partition(*text)) return run_partition(options, *text, begin);
  std::optional<std::vector<PipelineCase>> all;
  if (text) all = read_pipelines(options.problems, *text, diags);
  if (!all) return finish(diags);
  const std::vector<PipelineCase> cases = chosen(std::move(*all), options, diags);
  for (const PipelineCase& one : cases) report_faults(one, diags);
  if (!diags.ok()) return finish(diags);
  std::vector<Solution> solutions;
  for (const PipelineCase& one : cases) solutions.push_back(solve(one, options));
  print(solutions, options);
  return finish(diags);
}

}  // namespace weftc
