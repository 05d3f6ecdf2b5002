// Prints and dumps the runner's records of each pass and planning step.
#include "cli/pass_output.h"

#include <algorithm>
#include <cstdio>

#include "cli/process.h"
#include "cli/table.h"
#include "ir/text/plan_text.h"

namespace weftc {

static bool dump(const std::string& path, const std::string& text, Diags& diags) {
  const std::string error = write_file(path, text);
  if (!error.empty()) diags.error("dump-unwritable", Loc::in_file(path), "the file cannot be written: {}", error);
  return error.empty();
}

static void print_times(const RunReport& report) {
  std::vector<std::vector<std::string>> rows = {{"pass", "milliseconds", "ops afterwards"}};
  for (const PassReport& pass : report.passes)
    rows.push_back({pass.name, fixed(pass.seconds * 1e3, "%.1f"), std::to_string(pass.ops)});
  std::fputs(table_text(rows).c_str(), stderr);
}

bool show_passes(const Options& options, const RunReport& report, Diags& diags) {
  const std::vector<std::string>& wanted = options.print_ir_after;
  int number = 0;
  for (const PassReport& pass : report.passes) {
    if (std::find(wanted.begin(), wanted.end(), pass.name) != wanted.end()) std::fputs(pass.printed.c_str(), stdout);
    const std::string file = fixed(++number, "%02.0f-") + pass.name + ".weft";
    if (!options.dump_dir.empty() && !dump(options.dump_dir + "/" + file, pass.printed, diags)) return false;
  }
  if (options.time_passes) print_times(report);
  return true;
}

void show_planning(const Options& options, const std::vector<PlanningReport>& reports) {
  std::vector<std::vector<std::string>> rows = {{"planning", "milliseconds", "steps afterwards"}};
  for (const PlanningReport& step : reports) {
    std::fputs(step.printed.c_str(), stdout);
    rows.push_back({step.name, fixed(step.seconds * 1e3, "%.1f"), std::to_string(step.steps)});
  }
  if (options.time_passes) std::fputs(table_text(rows).c_str(), stderr);
}

bool show_plan(const Options& options, const Plan& plan, Diags& diags) {
  return options.dump_dir.empty() || dump(options.dump_dir + "/plan.txt", print_plan(plan), diags);
}

}  // namespace weftc
