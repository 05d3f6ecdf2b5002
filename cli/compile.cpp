// The compiler's table of contents: schedule, model, passes, plan, proof, sources, executable.
#include "cli/compile.h"

#include <algorithm>
#include <cstdio>

#include "backend/library_files.h"
#include "backend/variant_files.h"
#include "cli/build.h"
#include "cli/build_report.h"
#include "cli/commands.h"
#include "cli/machine_use.h"
#include "cli/pass_output.h"
#include "cli/process.h"
#include "cli/profile_file.h"
#include "cli/profile_use.h"
#include "cli/transport.h"
#include "frontend/onnx_reader.h"
#include "frontend/schedule_reader.h"
#include "ir/base/check.h"
#include "ir/kernel/kernel_scratch.h"
#include "ir/plan_walk.h"
#include "ir/segments.h"
#include "passes/plan/make_plan.h"
#include "passes/plan/merge_variants.h"
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

/// The schedule of the file; without --schedule, an empty one for one rank.
std::optional<Schedule> read_schedule_file(const Options& options, Diags& diags) {
  if (options.schedules.empty()) return Schedule{};
  const std::string& path = options.schedules.front();
  const auto given = options.schedule_texts.find(path);
  std::optional<Schedule> schedule = given == options.schedule_texts.end()
                                         ? read_schedule(path, diags)
                                         : read_schedule_text(path, given->second, diags);
  return schedule;
}

/// The same with --mesh and --precision applied.
std::optional<Schedule> read_schedule(const Options& options, Diags& diags) {
  std::optional<Schedule> schedule = read_schedule_file(options, diags);
  if (!schedule) return {};
  if (!options.mesh.empty()) resize_mesh(*schedule, options.mesh, diags);
  if (options.precision) schedule->precision = {{{}, *options.precision, {}}};
  if (!diags.ok()) return {};
  return schedule;
}

/// The requests for the model's dims, from the schedule and the command line. One value on the command line stands for
/// all values of the schedule.
std::vector<DimRequest> all_dims(const Options& options, const Schedule& schedule) {
  std::vector<DimRequest> dims = schedule.dims;
  std::erase_if(dims, [&](const DimRequest& dim) {
    return dim.values.size() > 1 && std::ranges::any_of(options.dims, [&](const DimRequest& one) {
             return one.name == dim.name && one.values.size() == 1;
           });
  });
  dims.insert(dims.end(), options.dims.begin(), options.dims.end());
  return dims;
}

/// Runs the passes after `start_after`, or all. Their output is shown even if one of them fails, when it is most
/// useful.
bool run_passes(Compilation& c, const std::string& start_after, const Options& options, Diags& diags) {
  const RunOptions run{options.print_ir_after, options.stop_after, start_after, !options.dump_dir.empty(),
                       options.skip_passes};
  try {
    const bool done = run_pipeline(c.module, {c.schedule, c.target, diags}, run, c.passes);
    for (const PassReport& pass : c.passes.passes) progress(options, "pass " + pass.name, pass.seconds);
    return show_passes(options, c.passes, diags) && done;
  } catch (const InternalError& error) {
    show_passes(options, c.passes, diags);
    throw InternalError(format("in pass {}: {}", c.passes.running, error.what()));
  }
}

/// As with passes, the output is shown even if a step fails, when it is most useful.
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

/// True if every rank's memory is within the schedule's limit, and within the memory of --machine's ranks.
bool fits_memory(const Compilation& c, const Options& options, Diags& diags) {
  const int64_t limit = c.target.memory, capacity = options.machine.empty() ? 0 : c.machine.memory;
  for (const Program& program : c.plan.programs) {
    const int64_t needed = needed_bytes(c.plan, program), of_weights = image_bytes(c.plan, program);
    const int rank = program.ranks[0];
    if (limit > 0 && needed > limit)
      diags.error("memory-limit", c.schedule.memory_loc, "rank {} needs {} bytes ({} of its weights), the limit is {}",
                  rank, needed, of_weights, limit);
    else if (capacity > 0 && needed > capacity)
      diags.error("machine-memory", Loc::in_file(options.machine),
                  "rank {} needs {} bytes ({} of its weights), a rank of the machine has {}", rank, needed, of_weights,
                  capacity);
  }
  return diags.ok();
}

std::unique_ptr<Compilation> compile_as_given(Schedule schedule, const Options& options, Diags& diags) {
  const Stopwatch watch;
  std::optional<Machine> machine = machine_for(options, diags);
  if (!machine) return nullptr;
  const ReadOptions read{options.model,    all_dims(options, schedule), options.shapes, options.binds, options.elements,
                         options.overrides};
  std::optional<Module> module = read_onnx(read, diags, &schedule);
  progress(options, "read " + printable(options.model), watch.seconds());
  if (!module) return nullptr;
  auto c = std::make_unique<Compilation>(
      Compilation{std::move(schedule), std::move(*module), options.target, std::move(*machine), {}, {}});
  c->target.memory = c->schedule.memory_limit.value_or(0);
  return run_passes(*c, {}, options, diags) ? std::move(c) : nullptr;
}

/// The options of a compilation inside a search: without output, and complete.
Options options_of_search(const Options& options) {
  Options quiet = options;
  quiet.stop_after.clear(), quiet.print_ir_after.clear(), quiet.print_plan_after.clear(), quiet.dump_dir.clear();
  quiet.quiet = true;
  return quiet;
}

/// Searches the order of the pipeline for the times of a first plan, or of --profile, and compiles with it.
std::unique_ptr<Compilation> compile_in_found_order(Schedule schedule, const Options& options, Diags& diags) {
  std::optional<Profile> profile;
  if (!options.profile.empty() && !(profile = read_profile(options.profile, diags))) return nullptr;
  const std::unique_ptr<Compilation> first = compile_as_given(schedule, options_of_search(options), diags);
  if (!first) return nullptr;
  const Stopwatch watch;
  std::optional<FoundOrder> order = search_order({first->module, first->schedule, first->target, first->machine},
                                                 profile ? &*profile : nullptr, diags);
  if (!order) return nullptr;
  progress(options, "search of the order", watch.seconds());
  take_order(schedule, *order);
  std::unique_ptr<Compilation> c = compile_as_given(std::move(schedule), options, diags);
  if (c) c->order = std::move(order);
  return c;
}

std::unique_ptr<Compilation> compile_under(Schedule schedule, const Options& options, Diags& diags) {
  const bool is_searched = schedule.pipeline && schedule.pipeline->order == PipelineRequest::Order::Search;
  return (is_searched ? compile_in_found_order : compile_as_given)(std::move(schedule), options, diags);
}

/// The bytes of the fullest rank; nullopt if there is no plan.
std::optional<int64_t> planned_bytes(const Schedule& schedule, const Options& options) {
  Diags discarded;
  const std::unique_ptr<Compilation> c = compile_under(schedule, options, discarded);
  const std::optional<Plan> plan = c ? run_planning(*c, options, discarded) : std::nullopt;
  if (!plan) return {};
  return needed_bytes(*plan);
}

/// If the schedule limits the memory kept for the backward pass, finds the values to keep. False after reporting.
bool choose_kept(Schedule& schedule, std::optional<RecomputeSearch>& found, const Options& options, Diags& diags) {
  if (!schedule.train || !schedule.train->recompute || !schedule.train->recompute->limit) return true;
  const Stopwatch watch;
  Options trial = options_of_search(options);
  trial.stop_after = "differentiate";
  Diags discarded;  // compiling the schedule as it is reports the same
  const std::unique_ptr<Compilation> c = compile_under(schedule, trial, discarded);
  if (!c) return true;
  trial.stop_after.clear();
  found = search_recomputation(
      schedule, kept_choices(c->module), [&](const Schedule& each) { return planned_bytes(each, trial); }, diags);
  if (found) progress(options, format("search of what is kept, {} plans", found->plans), watch.seconds());
  return diags.ok();
}

std::unique_ptr<Compilation> search_and_compile(Schedule schedule, const Options& options, Diags& diags) {
  std::optional<RecomputeSearch> found;
  if (!choose_kept(schedule, found, options, diags)) return nullptr;
  std::unique_ptr<Compilation> c = compile_under(std::move(schedule), options, diags);
  if (c) c->recomputation = std::move(found);
  return c;
}

}  // namespace

int64_t needed_bytes(const Plan& plan) {
  int64_t most = 0;
  for (const Program& program : plan.programs) most = std::max(most, needed_bytes(plan, program));
  return most;
}

std::unique_ptr<Compilation> compile_graph(const Options& options, Diags& diags) {
  if (!check_target(options, diags)) return nullptr;
  std::optional<Schedule> schedule = read_schedule(options, diags);
  return schedule ? search_and_compile(std::move(*schedule), options, diags) : nullptr;
}

std::unique_ptr<Compilation> compile_graph_on(const Compilation& stopped, const Options& options, Diags& diags) {
  std::optional<Schedule> schedule = read_schedule(options, diags);
  if (!schedule) return nullptr;
  auto c = std::make_unique<Compilation>(
      Compilation{stopped.schedule, stopped.module, stopped.target, stopped.machine, {}, {}});
  c->schedule.transforms = std::move(schedule->transforms);
  c->recomputation = stopped.recomputation, c->order = stopped.order;
  return run_passes(*c, stopped.passes.running, options, diags) ? std::move(c) : nullptr;
}

std::unique_ptr<Compilation> compile_graph_for_one_rank(const Options& options, Diags& diags, const Compilation& like) {
  std::optional<Schedule> schedule = read_schedule(options, diags);
  if (!schedule) return nullptr;
  if (schedule->train) schedule->train->recompute = like.schedule.train->recompute;
  schedule->mesh.clear(), schedule->places.clear(), schedule->shard.clear(), schedule->transforms.clear();
  schedule->pipeline.reset(), schedule->memory_limit.reset(), schedule->kernels.clear();
  schedule->annotations = "none";
  std::unique_ptr<Compilation> c = compile_under(std::move(*schedule), options, diags);
  if (c) c->machine.memory = 0;  // it is compared, and need not run on the machine
  return c;
}

/// The plan of the graph, not yet proved.
static bool plan_graph(Compilation& c, const Options& options, Diags& diags) {
  const Stopwatch watch;
  std::optional<Plan> plan = run_planning(c, options, diags);
  if (!plan || !diags.ok() || !has_all_ranks(c.machine, *plan, options, diags)) return false;
  c.plan = std::move(*plan);
  c.plan.unrolls_layers = options.unroll_layers;
  progress(options, "plan", watch.seconds());
  return true;
}

/// A plan that is as it is going to be emitted.
static bool check_plan(const Compilation& c, const Options& options, Diags& diags) {
  if (!fits_memory(c, options, diags)) return false;
  if (options.transport_mpi && !check_mpi_plan(c.plan, diags)) return false;
  const Stopwatch proof;
  const std::vector<std::string> wrong = prove_plan(c.plan);
  progress(options, "proof of the plan", proof.seconds());
  WEFT_CHECK(wrong.empty(), "the plan cannot be proved right:\n  " + join(wrong, "\n  "));
  return show_plan(options, c.plan, diags);
}

bool compile_plan(Compilation& c, const Options& options, Diags& diags) {
  return plan_graph(c, options, diags) && check_plan(c, options, diags);
}

/// The options for one variant.
static Options options_of(const Options& options, const VariantRequest& variant) {
  Options out = options;
  out.dims.clear();
  if (!options.dump_dir.empty() && !variant.name.empty()) out.dump_dir += "/" + variant.space;
  return out;
}

/// The relations that the model requires of its lengths if each dim with several values is open up to the largest.
/// Empty if it cannot be compiled that way.
static std::vector<LengthRelation> open_relations(Schedule schedule, const Options& options) {
  for (DimRequest& dim : schedule.dims)
    if (dim.values.size() > 1)
      dim.values = {*std::max_element(dim.values.begin(), dim.values.end())}, dim.bounded = true;
  Options quiet = options_of_search(options);
  quiet.stop_after = "relate-lengths";
  Diags discarded;
  const std::unique_ptr<Compilation> c = compile_under(std::move(schedule), quiet, discarded);
  return c ? c->module.relations : std::vector<LengthRelation>{};
}

/// True if an earlier variant takes the same lengths: what ops tie has the smaller bound in both.
static bool is_repeated(const CompiledVariants& made, const Compilation& c) {
  const auto shapes = [](const Compilation& of) {
    std::vector<Shape> inputs;
    for (const ValueId input : of.module.graph.inputs()) inputs.push_back(of.module.graph.type(input).shape);
    return inputs;
  };
  return std::any_of(made.begin(), made.end(),
                     [&](const CompiledVariant& known) { return shapes(*known.compilation) == shapes(c); });
}

CompiledVariants compile_variants(const Options& options, Diags& diags) {
  if (!check_target(options, diags)) return {};
  std::optional<Schedule> schedule = read_schedule(options, diags);
  if (!schedule) return {};
  CompiledVariants made;
  Diags of_excluded;
  std::optional<std::vector<LengthRelation>> relations;
  schedule->dims = all_dims(options, *schedule);
  std::vector<VariantRequest> wanted_variants = variants_of(schedule->dims, diags);
  if (schedule->generate) schedule->generate->has_variants = wanted_variants.size() > 1;
  if (schedule->train && wanted_variants.size() > 1)
    diags.error("train-lengths-unsupported", schedule->train->loc,
                "a training has one length for each dim of the model");
  if (!diags.ok()) return {};
  for (VariantRequest& variant : wanted_variants) {
    const Options wanted = options_of(options, variant);
    Diags found;
    if (!variant.name.empty()) progress(options, "variant " + printable(variant.name));
    Schedule own = *schedule;
    own.dims = variant.dims;
    std::unique_ptr<Compilation> c = search_and_compile(std::move(own), wanted, found);
    if (c && is_repeated(made, *c)) continue;
    const bool is_done = c && (c->passes.stopped || plan_graph(*c, wanted, found));
    if (!is_done && !variant.name.empty()) {
      if (!relations) relations = open_relations(*schedule, wanted);
      if (is_excluded(variant, *relations)) {
        if (of_excluded.ok()) report_for(variant, found, of_excluded);
        continue;
      }
    }
    report_for(variant, found, diags);
    if (!is_done) return {};
    made.push_back({std::move(variant), std::move(c)});
  }
  if (made.empty() && !of_excluded.ok()) {
    diags.append(of_excluded);
    Diags::Report(diags).note({}, "the model excludes all combinations of the values");
  }
  return made;
}

std::vector<VariantPlan> variant_plans(const CompiledVariants& variants) {
  std::vector<VariantPlan> plans;
  for (const CompiledVariant& variant : variants)
    plans.push_back({printable(variant.request.name), &variant.compilation->plan});
  return plans;
}

bool check_variants(CompiledVariants& variants, const Options& options, Diags& diags) {
  if (variants.size() > 1) merge_variants(variant_plans(variants), diags);
  if (!diags.ok()) return false;
  for (const CompiledVariant& variant : variants) {
    Diags found;
    const bool is_right = check_plan(*variant.compilation, options_of(options, variant.request), found);
    report_for(variant.request, found, diags);
    if (!is_right) return false;
  }
  return true;
}

/// Builds the requested result from sources.
static int make_program(const Plans& plans, std::vector<SourceFile> files, const Options& options, Diags& diags) {
  if (options.emit_library && check_library_name(*plans.front(), diags))
    for (SourceFile& file : library_files(plans)) files.push_back(std::move(file));
  if (!diags.ok()) return diags.exit_code();
  return options.emit_source ? write_sources(plans, files, options, diags) : build(plans, files, options, diags);
}

static ProgramForm form_of(const Options& options) {
  return options.emit_library ? ProgramForm::Library : ProgramForm::Executable;
}

int compile_program(const Compilation& c, const Options& options, Diags& diags) {
  const Stopwatch watch;
  std::vector<SourceFile> files = emit(c.plan, diags, form_of(options));
  progress(options, "sources", watch.seconds());
  return make_program({&c.plan}, std::move(files), options, diags);
}

int compile_program(const CompiledVariants& variants, const Options& options, Diags& diags) {
  if (variants.size() == 1) return compile_program(*variants.front().compilation, options, diags);
  const Stopwatch watch;
  std::vector<Variant> wanted;
  Plans plans;
  for (const CompiledVariant& variant : variants) {
    const VariantRequest& request = variant.request;
    plans.push_back(&variant.compilation->plan);
    wanted.push_back({request.name, request.space, request.of_variant, plans.back()});
  }
  std::vector<SourceFile> files = emit_variants(wanted, diags, form_of(options));
  progress(options, "sources", watch.seconds());
  return make_program(plans, std::move(files), options, diags);
}

int run_compile(const Options& options) {
  Diags diags;
  if (!check_output(options, diags)) return finish(diags);
  const Stopwatch watch;
  CompiledVariants variants = compile_variants(options, diags);
  if (variants.empty() || variants.front().compilation->passes.stopped) return finish(diags);
  if (!check_variants(variants, options, diags)) return finish(diags);
  warn_of_unused_profile(*variants.front().compilation, options, diags);
  const int code = compile_program(variants, options, diags);
  if (code == 0) report_build(variants, options, watch.seconds(), diags);
  const int reported = finish(diags);
  return code != 0 ? code : reported;
}

}  // namespace weftc
