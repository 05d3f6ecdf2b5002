// The last line of `weft compile`, and the same figures as JSON for --report.
#include "cli/build_report.h"

#include <cstdio>

#include "backend/pack.h"
#include "cli/json.h"
#include "cli/process.h"
#include "cli/table.h"

namespace weftc {

void report_build(const Compilation& c, const Options& options, double seconds, Diags& diags) {
  char time[32];
  std::snprintf(time, sizeof time, "%.1f", seconds);
  std::printf("%s: %d rank%s, %zu kernels, %s of weights, compiled in %s s\n", options.output.c_str(), c.plan.world,
              c.plan.world == 1 ? "" : "s", c.plan.kernels.size(), bytes_text(weights_bytes(c.plan)).c_str(), time);
  if (options.report.empty()) return;
  std::vector<std::string> passes;
  for (const PassReport& pass : c.passes.passes)
    passes.push_back(json_object(
        {{"name", json_string(pass.name)}, {"seconds", shortest(pass.seconds)}, {"ops", std::to_string(pass.ops)}}));
  const std::string error =
      write_file(options.report,
                 json_object({{"model", json_string(options.model)},
                              {"schedule", options.schedules.empty() ? "null" : json_string(options.schedules.front())},
                              {"output", json_string(options.output)},
                              {"ranks", std::to_string(c.plan.world)},
                              {"kernels", std::to_string(c.plan.kernels.size())},
                              {"weights_bytes", std::to_string(weights_bytes(c.plan))},
                              {"seconds", time},
                              {"passes", json_list(passes)},
                              {"warnings", std::to_string(diags.all().size())}}) +
                     "\n");
  if (!error.empty())
    diags.error("report-unwritable", Loc::in_file(options.report), "the report cannot be written: {}", error);
}

}  // namespace weftc
