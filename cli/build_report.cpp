// The last line of `weft compile`, and the same figures as JSON for --report.
#include "cli/build_report.h"

#include <cstdio>

#include "backend/pack.h"
#include "cli/json.h"
#include "cli/process.h"
#include "cli/table.h"

namespace weftc {

namespace {

/// "GPT-2: 2 ranks, 3 variants (seq=1; seq=128), 20 kernels, 1.2 MiB of weights (...)".
std::string summary(const CompiledVariants& variants, size_t kernels, int64_t doubled) {
  const Plan& plan = variants.front().compilation->plan;
  std::string text = format("{} rank{}, ", plan.world, plan.world == 1 ? "" : "s");
  std::vector<std::string> names;
  for (const CompiledVariant& variant : variants) names.push_back(printable(variant.request.name));
  if (names.size() > 1) text += format("{} variants ({}), ", names.size(), join(names, "; "));
  text += format("{} kernels, {} of weights", kernels, bytes_text(weights_bytes(plan)));
  return doubled == 0 ? text : text + format(" ({} stored again as other variants read them)", bytes_text(doubled));
}

std::string pass_rows(const Compilation& c) {
  std::vector<std::string> passes;
  for (const PassReport& pass : c.passes.passes)
    passes.push_back(json_object(
        {{"name", json_string(pass.name)}, {"seconds", shortest(pass.seconds)}, {"ops", std::to_string(pass.ops)}}));
  return json_list(passes);
}

std::string variant_rows(const CompiledVariants& variants) {
  std::vector<std::string> rows;
  for (const CompiledVariant& variant : variants)
    rows.push_back(json_object({{"name", json_string(variant.request.name)},
                                {"kernels", std::to_string(variant.compilation->plan.kernels.size())},
                                {"passes", pass_rows(*variant.compilation)}}));
  return json_list(rows);
}

}  // namespace

void report_build(const CompiledVariants& variants, const Options& options, double seconds, Diags& diags) {
  char time[32];
  std::snprintf(time, sizeof time, "%.1f", seconds);
  const Compilation& first = *variants.front().compilation;
  size_t kernels = 0;
  for (const CompiledVariant& variant : variants) kernels += variant.compilation->plan.kernels.size();
  const int64_t doubled = variants.size() > 1 ? doubled_weight_bytes(variant_plans(variants)) : 0;
  std::printf("%s: %s, compiled in %s s\n", options.output.c_str(), summary(variants, kernels, doubled).c_str(), time);
  if (options.report.empty()) return;
  std::vector<std::pair<std::string, std::string>> fields = {
      {"model", json_string(options.model)},
      {"schedule", options.schedules.empty() ? "null" : json_string(options.schedules.front())},
      {"output", json_string(options.output)},
      {"ranks", std::to_string(first.plan.world)},
      {"kernels", std::to_string(kernels)},
      {"weights_bytes", std::to_string(weights_bytes(first.plan))},
      {"seconds", time}};
  if (variants.size() > 1) {
    fields.emplace_back("doubled_weights_bytes", std::to_string(doubled));
    fields.emplace_back("variants", variant_rows(variants));
  } else {
    fields.emplace_back("passes", pass_rows(first));
  }
  fields.emplace_back("warnings", std::to_string(diags.all().size()));
  const std::string error = write_file(options.report, json_object(fields) + "\n");
  if (!error.empty())
    diags.error("report-unwritable", Loc::in_file(options.report), "the report cannot be written: {}", error);
}

}  // namespace weftc
