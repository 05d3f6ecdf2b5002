// The compiler's table of contents: schedule, model, passes, plan, proof, sources, executable.
#include "cli/compile.h"

#include <cstdio>

#include "backend/library_files.h"
#include "cli/build.h"
#include "cli/build_report.h"
#include "cli/commands.h"
#include "cli/pass_output.h"
#include "cli/process.h"
#include "cli/transport.h"
#include "frontend/onnx_reader.h"
#include "frontend/schedule_reader.h"
#include "ir/base/check.h"
#include "passes/plan/make_plan.h"
#include "passes/proof/prove_plan.h"

namespace weftc {

namespace {

/// Combinations of flags that no program can serve.
bool check_target(const Options& options, Diags& diags) {
  if (options.transport_mpi && options.target.has_grid())
    diags.error("mpi-unsupported", {}, "--transport mpi is for --target host: ranks with GPUs use NCCL");
  if (options.emit_library && (options.transport_mpi || options.target.has_grid()))
    diags.error("library-unsupported", {},
                "--emit library is for --target host with --transport local: its ranks are "
                "threads of one process");
  return diags.ok();
}

/// The schedule with --mesh applied; without --schedule, an empty one for one rank.
std::optional<Schedule> read_schedule(const Options& options, Diags& diags) {
  if (options.schedules.empty()) return Schedule{};
  const std::string& path = options.schedules.front();
  const auto piped = options.piped_schedules.find(path);
  std::optional<Schedule> schedule = piped == options.piped_schedules.end()
                                         ? read_schedule(path, diags)
                                         : read_schedule_text(path, piped->second, diags);
  if (!schedule) return {};
  resize_mesh(*schedule, options.mesh, diags);
  if (!diags.ok()) return {};
  return schedule;
}

/// What the command line and the schedule together say of the model's dims.
ReadOptions read_options(const Options& options, const Schedule& schedule) {
  ReadOptions read{options.model, schedule.dims, options.shapes, options.binds, options.elements};
  read.dims.insert(read.dims.end(), options.dims.begin(), options.dims.end());
  return read;
}

/// Runs the passes. What they printed is shown also if one of them broke: then it is wanted most.
bool run_passes(Compilation& c, const Options& options, Diags& diags) {
  const RunOptions run{options.print_ir_after, options.stop_after, !options.dump_dir.empty(), options.skip_passes};
  try {
    const bool done = run_pipeline(c.module, {c.schedule, c.target, diags}, run, c.passes);
    for (const PassReport& pass : c.passes.passes) progress(options, "pass " + pass.name, pass.seconds);
    return show_passes(options, c.passes, diags) && done;
  } catch (const InternalError& error) {
    show_passes(options, c.passes, diags);
    throw InternalError(format("in pass {}: {}", c.passes.running, error.what()));
  }
}

/// As with passes, what was printed is wanted most where a step broke.
std::optional<Plan> run_planning(const Compilation& c, const Options& options, Diags& diags) {
  std::vector<PlanningReport> reports;
  try {
    std::optional<Plan> plan =
        make_plan(c.module, c.target, diags, {options.print_plan_after, c.schedule.kernels}, reports);
    show_planning(options, reports);
    return plan;
  } catch (const InternalError& error) {
    show_planning(options, reports);
    throw InternalError(format("while planning: {}", error.what()));
  }
}

/// True if every rank's memory is within the schedule's limit.
bool fits_memory(const Compilation& c, Diags& diags) {
  const int64_t weights = c.plan.segments.empty() ? 0 : c.plan.segments.back().end;
  for (const Program& program : c.plan.programs) {
    const int64_t needed = program.own_bytes + program.window_bytes + weights;
    if (c.target.memory == 0 || needed <= c.target.memory) continue;
    diags.error("memory-limit", c.schedule.memory_loc, "rank {} needs {} bytes ({} of its weights), the limit is {}",
                program.ranks[0], needed, weights, c.target.memory);
  }
  return diags.ok();
}

std::unique_ptr<Compilation> compile_under(std::optional<Schedule> schedule, const Options& options, Diags& diags) {
  if (!schedule) return nullptr;
  const Stopwatch watch;
  std::optional<Module> module = read_onnx(read_options(options, *schedule), diags, &*schedule);
  progress(options, "read " + printable(options.model), watch.seconds());
  if (!module) return nullptr;
  auto c = std::make_unique<Compilation>(Compilation{std::move(*schedule), std::move(*module), options.target, {}, {}});
  c->target.memory = c->schedule.memory_limit.value_or(0);
  return run_passes(*c, options, diags) ? std::move(c) : nullptr;
}

}  // namespace

std::unique_ptr<Compilation> compile_graph(const Options& options, Diags& diags) {
  if (!check_target(options, diags)) return nullptr;
  return compile_under(read_schedule(options, diags), options, diags);
}

std::unique_ptr<Compilation> compile_graph_for_one_rank(const Options& options, Diags& diags) {
  std::optional<Schedule> schedule = read_schedule(options, diags);
  if (!schedule) return nullptr;
  schedule->mesh.clear(), schedule->places.clear(), schedule->shard.clear(), schedule->transforms.clear();
  schedule->pipeline.reset(), schedule->memory_limit.reset(), schedule->kernels.clear();
  schedule->annotations = "none";
  return compile_under(std::move(schedule), options, diags);
}

bool compile_plan(Compilation& c, const Options& options, Diags& diags) {
  const Stopwatch watch;
  std::optional<Plan> plan = run_planning(c, options, diags);
  if (!plan || !diags.ok()) return false;
  c.plan = std::move(*plan);
  if (!fits_memory(c, diags)) return false;
  if (options.transport_mpi && !check_mpi_plan(c.plan, diags)) return false;
  progress(options, "plan", watch.seconds());
  const Stopwatch proof;
  const std::vector<std::string> wrong = prove_plan(c.plan);
  progress(options, "proof of the plan", proof.seconds());
  WEFT_CHECK(wrong.empty(), "the plan cannot be proved right:\n  " + join(wrong, "\n  "));
  return true;
}

int compile_program(const Compilation& c, const Options& options, Diags& diags) {
  const Stopwatch watch;
  const ProgramForm form = options.emit_library ? ProgramForm::Library : ProgramForm::Executable;
  std::vector<SourceFile> files = emit(c.plan, diags, form);
  if (options.emit_library)
    for (SourceFile& file : library_files(c.plan)) files.push_back(std::move(file));
  progress(options, "sources", watch.seconds());
  if (!diags.ok()) return diags.exit_code();
  return options.emit_source ? write_sources(c.plan, files, options, diags) : build(c.plan, files, options, diags);
}

int run_compile(const Options& options) {
  Diags diags;
  if (!check_output(options, diags)) return finish(diags);
  const Stopwatch watch;
  const std::unique_ptr<Compilation> c = compile_graph(options, diags);
  if (!c || c->passes.stopped) return finish(diags);
  if (!compile_plan(*c, options, diags) || !show_plan(options, c->plan, diags)) return finish(diags);
  const int code = compile_program(*c, options, diags);
  if (code == 0) report_build(*c, options, watch.seconds(), diags);
  const int reported = finish(diags);
  return code != 0 ? code : reported;
}

}  // namespace weftc
