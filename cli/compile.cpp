#include "cli/compile.h"

#include <algorithm>
#include <cstdio>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/process.h"
#include "cli/table.h"
#include "frontend/schedule_reader.h"
#include "ir/base/check.h"
#include "passes/make_plan.h"

namespace weft {

namespace {

bool check_target(const Options& options, Diags& diags) {
  if (options.target.kind == Target::Kind::Cuda)
    diags.error("cuda-unsupported", {}, "this version compiles for --target host only");
  if (options.transport_mpi)
    diags.error("mpi-unsupported", {}, "this version has no --transport mpi: ranks must be on one machine");
  return diags.ok();
}

ReadOptions read_options(const Options& options, const Schedule& schedule) {
  ReadOptions read{options.model, schedule.dims, options.shapes, options.binds};
  read.dims.insert(read.dims.end(), options.dims.begin(), options.dims.end());
  return read;
}

void write_dumps(const RunReport& report, const std::string& folder, Diags& diags) {
  int number = 0;
  for (const PassReport& pass : report.passes) {
    char prefix[16];
    std::snprintf(prefix, sizeof prefix, "%02d-", ++number);
    const std::string path = folder + "/" + prefix + pass.name + ".weft";
    const std::string error = write_file(path, pass.printed);
    if (error.empty()) continue;
    diags.error("dump-file", Loc::in_file(path), "cannot be written: {}", error);
    return;
  }
}

void show_passes(const Options& options, const RunReport& report, Diags& diags) {
  for (const PassReport& pass : report.passes)
    if (std::find(options.print_ir_after.begin(), options.print_ir_after.end(), pass.name) != options.print_ir_after.end())
      std::fputs(pass.printed.c_str(), stdout);
  if (!options.dump_dir.empty()) write_dumps(report, options.dump_dir, diags);
  if (!options.time_passes) return;
  std::vector<std::vector<std::string>> rows = {{"pass", "milliseconds", "ops afterwards"}};
  for (const PassReport& pass : report.passes) {
    char milliseconds[32];
    std::snprintf(milliseconds, sizeof milliseconds, "%.1f", pass.seconds * 1e3);
    rows.push_back({pass.name, milliseconds, std::to_string(pass.ops)});
  }
  std::fputs(table_text(rows).c_str(), stderr);
}

/// What the passes printed is wanted most where one of them broke.
bool run_passes(Compilation& c, const Options& options, Diags& diags) {
  const Env env{c.schedule, c.target, diags};
  try {
    const bool done = run_pipeline(c.module, env, {options.print_ir_after, options.stop_after, !options.dump_dir.empty()}, c.passes);
    show_passes(options, c.passes, diags);
    return done && diags.ok();
  } catch (const InternalError& error) {
    show_passes(options, c.passes, diags);
    const size_t number = c.passes.passes.size();
    throw InternalError(format("in pass {}: {}", number < pipeline().size() ? pipeline()[number].name : "?", error.what()));
  }
}

}  // namespace

std::unique_ptr<Compilation> compile_graph(const Options& options, Diags& diags) {
  auto c = std::make_unique<Compilation>();
  c->target = options.target;
  if (!check_target(options, diags)) return nullptr;
  if (!options.schedules.empty()) {
    std::optional<Schedule> schedule = read_schedule(options.schedules.front(), diags);
    if (!schedule) return nullptr;
    c->schedule = std::move(*schedule);
    c->target.memory = c->schedule.memory_limit.value_or(0);
  }
  std::optional<Module> module = read_onnx(read_options(options, c->schedule), diags);
  if (!module) return nullptr;
  c->module = std::move(*module);
  if (!run_passes(*c, options, diags)) return nullptr;
  return c;
}

}  // namespace weft
