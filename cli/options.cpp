// The command line by CLI11: each verb takes groups of flags, whose texts are understood after parsing. All
// usage errors leave as CLI11's exceptions and become exit code 2.
#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "cli/tune/budget.h"
#include "frontend/machine_file.h"
#include "frontend/schedule_reader.h"
#include "passes/cost/cost_model.h"
#include "passes/pass.h"
#include "passes/plan/planning.h"
#include "weft_build_config.h"

namespace weftc {

namespace {

// kDefaultArch: the levels for which an executable has kernels. kShownArch: the level for verbs that neither build nor
// run. Both are the same on every machine of an architecture.
#if defined(__x86_64__)
constexpr const char *kDefaultArch = "x86-64-v3,x86-64-v4", *kShownArch = "x86-64-v3";
#elif defined(__aarch64__)
constexpr const char *kDefaultArch = "aarch64", *kShownArch = kDefaultArch;
#else
constexpr const char *kDefaultArch = "native", *kShownArch = kDefaultArch;
#endif

/// Levels that are listed together, in the order of their table.
std::vector<std::string> sorted_archs(const std::string& text) {
  std::vector<std::string> archs;
  const std::vector<std::string> wanted = split(text, ','), known = host_arch_names();
  for (const std::string& arch : wanted)
    if (!find_host_arch(arch))
      throw CLI::ValidationError(format("--arch {}: one or more of {} is expected", text, join(known, ", ")));
  for (const std::string& arch : known) archs.insert(archs.end(), std::count(wanted.begin(), wanted.end(), arch), arch);
  return archs;
}

/// One level, or several of which each program takes the highest that its CPU has.
Target host_target_of(const std::string& text) {
  const std::vector<std::string> archs = sorted_archs(text);
  if (const auto twice = std::adjacent_find(archs.begin(), archs.end()); twice != archs.end())
    throw CLI::ValidationError(format("--arch {}: '{}' is listed twice", text, *twice));
  if (archs.size() > 1 && archs.back() == "native")
    throw CLI::ValidationError(format("--arch {}: native is the level of this CPU, alone", text));
  Target target = host_target(archs);
  for (const std::string& arch : archs)
    if (find_host_arch(arch)->machine != target.machine)
      throw CLI::ValidationError(
          format("--arch {}: {} and {} are levels of two machines, and an executable is for one: compile twice", text,
                 archs.front(), arch));
  return target;
}

/// The highest level of this CPU: programs that are built to run here need no other.
Target best_here(const Target& target) {
  Target best = host_target({target.archs.front()});
  for (const std::string& arch : target.archs)
    if (find_host_arch(arch)->vector_floats <= find_host_arch("native")->vector_floats) best = host_target({arch});
  return best;
}

/// The flags as text, before they are understood.
struct FlagTexts {
  std::vector<std::string> dims, shapes, binds, overrides, sequences, optionals, mesh, ceilings;
  std::string precision, target, arch, transport = "local", emit = "exe", run_args, budget;
};

/// Calls parse(text, diags) and turns what it reports into a usage error.
template <class Result, class Parse>
void parse_each(const std::vector<std::string>& texts, std::vector<Result>& results, Parse parse) {
  for (const std::string& text : texts) {
    Diags diags;
    std::optional<Result> result = parse(text, diags);
    if (!result) throw CLI::ValidationError(diags.all().front().message);
    results.push_back(std::move(*result));
  }
}

/// An option that may be given several times, with one value each time.
CLI::Option* add_list(CLI::App& verb, const char* name, std::vector<std::string>& values, const char* type,
                      const std::string& help) {
  return verb.add_option(name, values, help)->type_name(type)->allow_extra_args(false)->take_all();
}

/// Flags that define the model: dims, shapes, fixed inputs.
void add_model_flags(CLI::App& verb, FlagTexts& given) {
  add_list(verb, "--dim", given.dims, "NAME=N", "NAME=128 pins a symbolic dim, NAME<=1024 bounds it");
  add_list(verb, "--shape", given.shapes, "INPUT=1x3x224x<=224", "pins unnamed dims of an input, or bounds them");
  add_list(verb, "--bind", given.binds, "INPUT=FILE.npy", "fixes an input at compile time");
  add_list(verb, "--override", given.overrides, "INPUT", "leaves an input that has a default to the executable");
  add_list(verb, "--sequence", given.sequences, "INPUT=N", "how many tensors an input is that is a sequence");
  add_list(verb, "--optional", given.optionals, "INPUT=present|absent", "whether there is an input that is optional");
}

/// "sm_80": below it there is no bfloat16 and no asynchronous copy.
void check_cuda_arch(const std::string& arch) {
  const std::string number = arch.starts_with("sm_") ? arch.substr(3) : "";
  const bool digits =
      !number.empty() && number.size() <= 3 && number.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || std::stoi(number) < 80)
    throw CLI::ValidationError(format("--arch {}: sm_80, sm_90, sm_100 or the like is expected", arch));
}

/// Whether a plan is for a machine of GPUs. The file's own reader reports errors in it.
bool is_machine_of_gpus(const std::string& file) {
  Diags unreported;
  const std::optional<Machine> machine = read_machine(file, unreported);
  return machine && machine->is_device;
}

/// The target of the flags, or else the planned machine's target.
bool is_for_cuda(const Verb& verb, const FlagTexts& given, const Options& options) {
  const bool is_planned = (verb.flags & Verb::kPlan) || options.is_planned;
  if (given.target.empty() && is_planned) return is_machine_of_gpus(options.machine);
  return given.target == "cuda";
}

/// Flags that say what to build for.
void add_target_flags(CLI::App& verb, FlagTexts& given, Options& options) {
  verb.add_option("--target", given.target, "host or cuda; a plan is for its machine's")
      ->check(CLI::IsMember({"host", "cuda"}))
      ->default_str("host");
  verb.add_option("--arch", given.arch,
                  format("{}; {} without it; several of one machine: the program takes the highest that its CPU has; "
                         "sm_80, sm_90, ...",
                         join(host_arch_names(), ", "), kDefaultArch))
      ->type_name("LIST");
  verb.add_option("--transport", given.transport, "how host ranks talk across machines")
      ->check(CLI::IsMember({"local", "mpi"}))
      ->capture_default_str();
  verb.add_option("--mpicc", options.mpicc, "the compiler wrapper of the MPI to build for")
      ->type_name("COMMAND")
      ->capture_default_str();
}

/// The flags of planning, for all verbs that plan.
void add_planning_flags(CLI::App& verb, Options& options) {
  verb.add_option("--ranks", options.machine_ranks, "how many of the machine's a plan is for; without it, all")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
  verb.add_option("--level", options.level,
                  "what a plan chooses: layouts (shard), transforms of collectives too, or also the stages of a "
                  "pipeline; the last two compile what they try, which takes its time")
      ->check(CLI::IsMember({"shard", "transforms", "pipeline"}))
      ->capture_default_str();
  verb.add_option("--page", options.page,
                  "writes the plan beside what else was searched, data parallel, FSDP and Megatron, as a page for a "
                  "browser")
      ->type_name("FILE.html");
}

/// Flags of `compile`: the result, and what to show of the way to it.
void add_build_flags(CLI::App& verb, FlagTexts& given, Options& options) {
  verb.add_flag("--auto", options.is_planned,
                "by the schedule that `weft plan` finds for --machine, around what --schedule says already");
  add_planning_flags(verb, options);
  verb.add_option("-o", options.output, "the executable, or the folder with --emit source and --emit library")
      ->type_name("PATH");
  verb.add_option("--emit", given.emit, "what to make")
      ->check(CLI::IsMember({"exe", "source", "library"}))
      ->capture_default_str();
  verb.add_flag("--unroll-layers", options.unroll_layers,
                "program.cpp has each layer's steps, not a loop over layers that repeat");
  verb.add_option("--dump-dir", options.dump_dir, "writes the graph after every pass")->type_name("DIR");
  std::vector<std::string> passes;
  for (const Pass& pass : pipeline()) passes.push_back(pass.name);
  add_list(verb, "--print-ir-after", options.print_ir_after, "PASS", "prints the graph after this pass")
      ->check(CLI::IsMember(passes));
  std::vector<std::string> steps;
  for (const PlanningStep& step : planning()) steps.push_back(step.name);
  add_list(verb, "--print-plan-after", options.print_plan_after, "STEP", "prints the plan after this planning step")
      ->check(CLI::IsMember(steps));
  verb.add_option("--stop-after", options.stop_after, "ends after this pass")
      ->type_name("PASS")
      ->check(CLI::IsMember(passes));
  verb.add_flag("--time-passes", options.time_passes, "prints what each pass took");
  verb.add_option("--report", options.report, "writes what was made, as JSON")->type_name("FILE.json");
}

void add_tune_flags(CLI::App& verb, FlagTexts& given, Options& options) {
  verb.add_option("-o", options.output, "the schedule that was fastest")->required()->type_name("FILE.yaml");
  add_list(verb, "--collective", options.collectives, "NAME",
           "a collective of the schedule, as explain names it; without it and --kernel, all of them");
  add_list(
      verb, "--kernel", options.kernels, "NAME",
      "a kernel whose strategies are tried, as explain names it; without it and --collective, those that take 95 % "
      "of the predicted time");
  verb.add_option(
          "--budget", given.budget,
          "ends in time with the best so far: 90s, 5m, 1h; an interrupt or termination signal does that too, "
          "with the exit code of the signal. What was measured stays in FILE.yaml.trials, and a later run goes on "
          "from there")
      ->check([](const std::string& text) {
        return parse_duration(text) ? "" : "a time such as 90s, 5m or 1h is expected";
      })
      ->type_name("TIME");
  verb.add_flag("--all", options.is_all, "tries what the cost model would leave out, too");
  verb.add_option("--chunks", options.chunks, "chunk counts to try")
      ->delimiter(',')
      ->check(CLI::Range(2, 1024))
      ->type_name("LIST")
      ->default_str("2,4,8");
  verb.add_option("--run-args", given.run_args, "arguments for the executables that are timed, split at blanks")
      ->type_name("TEXT");
  verb.add_option("--pairs", options.pairs, "runs of the winner and of the unchanged schedule, in turns")
      ->check(CLI::Range(10, 10000))
      ->capture_default_str();
}

void add_prediction_flags(CLI::App& verb, FlagTexts& given, Options& options) {
  verb.add_option("--page", options.page, "writes the timeline as a page for a browser")->type_name("FILE.html");
  add_list(verb, "--ceiling", given.ceilings, "NAME=X",
           "replaces what the prediction takes for the machine: " + join(ceiling_names(), ", "));
}

void add_trace_flags(CLI::App& verb, Options& options) {
  verb.add_option("FILE", options.traces, "what executables wrote with --trace: all ranks of one run")
      ->required()
      ->type_name("");
  verb.add_option(
          "--model", options.model,
          "what was run, with its --schedule: shows the predicted order of the pipeline beside the measured one")
      ->type_name("MODEL");
  verb.add_option("--iteration", options.iteration, "a number from 0 on, median, or all")
      ->check([](const std::string& text) {
        const bool digits = text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
        return text == "median" || text == "all" || (digits && !text.empty()) ? ""
                                                                              : "a number, median or all is expected";
      })
      ->type_name("WHICH")
      ->capture_default_str();
}

void add_solve_flags(CLI::App& verb, Options& options) {
  verb.add_option("FILE", options.problems,
                  "pipeline problems as JSON: {\"cases\": [...]}; or a partition problem in the contest IOPDDL's form, "
                  ".json or .json.gz")
      ->required()
      ->type_name("");
  verb.add_option("--seconds", options.seconds,
                  "of a partition problem: how long to search for less where nothing is proved")
      ->check(CLI::Range(0.01, 1e6))
      ->type_name("S")
      ->capture_default_str();
  verb.add_option("--seed", options.seed, "of a partition problem: which neighbourhoods are searched")
      ->type_name("N")
      ->capture_default_str();
  add_list(verb, "--case", options.cases, "NAME", "a case of the file; without it, all of them");
  verb.add_option("--per-period", options.per_period, "micro-batches that a period holds")
      ->check(CLI::Range(1, 3))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--micro-batches", options.micro_batches,
                  "how many to fill and drain the pipeline with; several: 8,16")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->type_name("LIST")
      ->default_str("16");
  verb.add_option("--effort", options.effort,
                  "times the usual work, before the best that was found has to do where nothing is proved")
      ->check(CLI::Range(0.001, 1000.0))
      ->type_name("X")
      ->capture_default_str();
}

void add_profile_flags(CLI::App& verb, FlagTexts& given, Options& options) {
  verb.add_flag("--machine", options.measures_machine, "measures this machine instead of a model");
  verb.add_option("--ranks", options.machine_ranks, "with --machine: how many; without it, a rank a core")
      ->check(CLI::Range(1, 64))
      ->type_name("N");
  verb.add_option("-o", options.output,
                  "what was measured, for --profile (or, of a machine, --machine) of explain, tune and compile")
      ->type_name("FILE");
  verb.add_option("--iterations", options.iterations, "invocations that are measured")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verb.add_option("--run-args", given.run_args, "arguments for the executable that is timed, split at blanks")
      ->type_name("TEXT");
}

void add_plan_flags(CLI::App& verb, Options& options) {
  verb.add_option("--machine", options.machine, "the machine to plan for (samples/machines)")
      ->required()
      ->type_name("FILE.yaml");
  add_planning_flags(verb, options);
  add_list(verb, "--keep,--train", options.schedules, "FILE",
           "a schedule of which all stays, such as `dims` and `train`, or a mesh and some layouts");
  verb.add_option("-o", options.output, "the schedule; without it, standard output")->type_name("FILE.yaml");
}

/// All flags of one verb, by its groups.
void add_flags(CLI::App& app, const Verb& verb, FlagTexts& given, Options& options) {
  const auto takes = [&](unsigned flags) { return (verb.flags & flags) != 0; };
  if (takes(Verb::kModel))
    app.add_option("MODEL", options.model, ".onnx, or .onnxtxt (ONNX text syntax)")
        ->required(!takes(Verb::kProfile))
        ->type_name("");
  if (takes(Verb::kTrace)) add_trace_flags(app, options);
  if (takes(Verb::kModel | Verb::kTrace)) {
    add_model_flags(app, given);
    if (!takes(Verb::kPlan)) {
      add_list(app, "--schedule", options.schedules, "FILE", "YAML; without it, one rank");
      add_list(app, "--mesh", given.mesh, "AXIS=N", "gives an axis of the schedule's mesh another size");
    }
    app.add_option("--precision", given.precision,
                   "what operands of products and convolutions are rounded to, whatever the schedule says")
        ->check(CLI::IsMember(precision_names()));
  }
  if (takes(Verb::kExport)) {
    app.add_option("MODEL", options.model, "the .onnx file that was trained")->required()->type_name("");
    app.add_option("CHECKPOINT", options.checkpoint, "a checkpoint, or a folder of them: the latest")
        ->required()
        ->type_name("");
    app.add_flag("--average", options.averages, "the moving averages of parameters, which `average:` keeps");
    app.add_option("-o", options.output, "the model with the trained parameters")->required()->type_name("FILE.onnx");
  }
  if (takes(Verb::kModel | Verb::kTarget | Verb::kTrace)) add_target_flags(app, given, options);
  if (takes(Verb::kModel | Verb::kTrace))
    app.add_flag("--quiet", options.quiet, "no lines of progress on standard error");
  if (takes(Verb::kBuild)) add_build_flags(app, given, options);
  if (takes(Verb::kJson)) app.add_flag("--json", options.json, "prints JSON");
  if (takes(Verb::kInspect))
    app.add_flag("--requirements", options.requirements,
                 "prints what requests must be like: open lengths, their bounds, and what nodes demand of them");
  if (takes(Verb::kExplain)) app.add_flag("--names", options.names, "lists every name that a schedule can select");
  if (takes(Verb::kExplain | Verb::kTrace)) add_prediction_flags(app, given, options);
  if (takes(Verb::kLog)) {
    app.add_option("FILE", options.logs, "what trainings wrote with --log, of one run each")->required()->type_name("");
    app.add_option("--page", options.page, "writes a chart of each figure as a page for a browser")
        ->type_name("FILE.html");
  }
  if (takes(Verb::kSolve)) add_solve_flags(app, options);
  if (takes(Verb::kOps)) app.add_flag("--markdown", options.markdown, "prints a Markdown table");
  if (takes(Verb::kTune)) add_tune_flags(app, given, options);
  if (takes(Verb::kProfile)) add_profile_flags(app, given, options);
  if (takes(Verb::kPlan)) add_plan_flags(app, options);
  if (takes(Verb::kBuild | Verb::kExplain | Verb::kTune | Verb::kTrace))
    app.add_option("--machine", options.machine, "the machine that predictions are for; without it, a usual one")
        ->type_name("FILE.yaml");
  if (takes(Verb::kBuild | Verb::kExplain | Verb::kTune))
    app.add_option("--profile", options.profile,
                   "what `weft profile` measured: its times instead of those that the cost model predicts")
        ->type_name("FILE.json");
  if (takes(Verb::kVerify | Verb::kTune))
    app.add_option("--tolerance", options.tolerance, "largest max|a-b| / max|b| of floating-point outputs")
        ->type_name("X");
  if (takes(Verb::kVerify)) {
    app.add_option("--data", options.data, "a folder of input_N and output_N, .npy or .pb")->type_name("DIR");
    app.add_flag("--taps", options.taps, "on a mismatch, names the first value between kernels that differs");
  }
  if (takes(Verb::kMany)) {
    app.add_option("--list", options.list, "a file with a case a line")->required()->type_name("FILE");
    app.add_option("--jobs", options.jobs, "processes")->check(CLI::Range(1, 1024))->capture_default_str();
    app.add_option("--run-args", given.run_args, "arguments for every program, split at blanks")->type_name("TEXT");
  }
}

/// "link=1.25e9".
std::pair<std::string, double> parse_ceiling(const std::string& text) {
  const size_t at = text.find('=');
  const std::string name = text.substr(0, at);
  Ceilings any;
  if (!find_ceiling(any, name))
    throw CLI::ValidationError(
        format("--ceiling {}: there is no ceiling '{}'{}", text, name, did_you_mean(name, ceiling_names())));
  const bool may_be_zero = name == "latency" || name == "step";
  double value = 0;
  const double most = name == "chunked" ? 1 : 1e30;
  if (at == std::string::npos || !CLI::detail::lexical_cast(text.substr(at + 1), value) || value > most ||
      !(may_be_zero ? value >= 0 : value > 0))
    throw CLI::ValidationError(format("--ceiling {}: {}=NUMBER is expected", text, name));
  return {name, value};
}

/// The files that a verb reads, as the command line names them.
std::vector<std::string> files_read(const Options& options, bool with_schedules) {
  std::vector<std::string> files = {options.model, options.checkpoint, options.machine, options.profile};
  for (const BindRequest& bind : options.binds) files.push_back(bind.file);
  files.insert(files.end(), options.traces.begin(), options.traces.end());
  files.insert(files.end(), options.logs.begin(), options.logs.end());
  if (with_schedules) files.insert(files.end(), options.schedules.begin(), options.schedules.end());
  return files;
}

/// A usage error if a result would replace one of its inputs. Pipes and devices are never replaced.
void refuse_overwriting(const Verb& verb, const std::string& result, const std::vector<std::string>& files) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(result, error)) return;
  for (const std::string& file : files)
    if (std::filesystem::equivalent(result, file, error))
      throw CLI::ValidationError(format("the result would overwrite '{}', which {} reads", printable(file), verb.name));
}

/// `plan` and `tune` write back all of a schedule, so that it can be written in place.
void check_results(const Verb& verb, const Options& options) {
  const bool is_in_place = (verb.flags & (Verb::kPlan | Verb::kTune)) != 0;
  refuse_overwriting(verb, options.output, files_read(options, !is_in_place));
  for (const std::string& result : {options.report, options.page})
    refuse_overwriting(verb, result, files_read(options, true));
}

void check_profile_flags(const Options& options) {
  if (options.model.empty() == !options.measures_machine)
    throw CLI::ValidationError("profile measures either a MODEL or, with --machine, this machine");
  if (options.measures_machine && options.output.empty())
    throw CLI::ValidationError("profile --machine needs -o FILE.yaml: where the result goes");
  if (!options.measures_machine && options.machine_ranks > 0)
    throw CLI::ValidationError("--ranks is for profile --machine: a MODEL has those of its schedule");
}

/// Understands the texts, and checks what CLI11 cannot; errors are thrown as CLI11 throws them.
void understand(const Verb& verb, const FlagTexts& given, Options& options) {
  parse_each(given.dims, options.dims, parse_dim_option);
  parse_each(given.shapes, options.shapes, parse_shape_option);
  parse_each(given.binds, options.binds, parse_bind_option);
  options.overrides = given.overrides;
  parse_each(given.sequences, options.elements, parse_sequence_option);
  parse_each(given.optionals, options.elements, parse_optional_option);
  parse_each(given.mesh, options.mesh, parse_mesh_option);
  for (const std::string& text : given.ceilings) options.ceilings.push_back(parse_ceiling(text));
  if (!options.mesh.empty() && options.schedules.empty())
    throw CLI::ValidationError("--mesh changes a schedule's mesh: it needs --schedule");
  if (!(verb.flags & Verb::kVerify) && options.schedules.size() > 1)
    throw CLI::ValidationError(
        format("{} takes one {}", verb.name,
               verb.flags & Verb::kPlan ? "--keep, or --train, which is the same flag" : "--schedule"));
  if (options.tolerance && !(*options.tolerance >= 0))
    throw CLI::ValidationError("--tolerance takes a number that is not negative");
  options.emit_source = given.emit == "source";
  options.emit_library = given.emit == "library";
  if ((verb.flags & Verb::kBuild) && options.output.empty() && options.stop_after.empty())
    throw CLI::ValidationError("-o PATH is required: where the result goes");
  if ((verb.flags & Verb::kBuild) && options.is_planned && options.machine.empty())
    throw CLI::ValidationError("--auto needs --machine FILE.yaml: what is planned for");
  if ((verb.flags & Verb::kBuild) && !options.is_planned &&
      (options.machine_ranks > 0 || options.level != "shard" || !options.page.empty()))
    throw CLI::ValidationError("--ranks, --level and --page are for what --auto plans");
  if (verb.flags & Verb::kTune) {
    if (options.schedules.empty()) throw CLI::ValidationError("tune needs --schedule: the mesh, and where weights lie");
    if (options.chunks.empty()) options.chunks = {2, 4, 8};
    options.budget = parse_duration(given.budget).value_or(0);
  }
  if (verb.flags & Verb::kProfile) check_profile_flags(options);
  check_results(verb, options);
  if ((verb.flags & Verb::kSolve) && options.micro_batches.empty()) options.micro_batches = {16};
  for (const std::string& word : split(given.run_args, ' '))
    if (!word.empty()) options.run_args.push_back(word);
  if (!given.precision.empty()) options.precision = parse_precision(given.precision);
  if (given.transport == "mpi") options.transport_mpi = true;
  if (is_for_cuda(verb, given, options)) {
    options.target = cuda_target(split(given.arch.empty() ? "sm_80,sm_90" : given.arch, ','));
    for (const std::string& arch : options.target.archs) check_cuda_arch(arch);
    return;
  }
  const bool is_run = verb.flags & (Verb::kBuild | Verb::kVerify | Verb::kTune | Verb::kMany | Verb::kProfile);
  options.target = host_target_of(!given.arch.empty() ? given.arch : is_run ? kDefaultArch : kShownArch);
  if (!(verb.flags & Verb::kBuild)) options.target = best_here(options.target);
}

}  // namespace

/// Reports a word that is no verb: CLI11 takes it for an argument, and then asks for a verb.
static bool is_known_verb(const std::string& word, const Verb* verbs, size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) {
    if (word == verbs[i].name) return true;
    if (!(verbs[i].flags & Verb::kMany)) names.push_back(verbs[i].name);
  }
  std::fprintf(stderr, "weft: error: unknown verb '%s'%s\nRun with --help for more information.\n",
               printable(word).c_str(), did_you_mean(word, names).c_str());
  return false;
}

Options with_schedule(Options options, std::string text) {
  if (options.schedules.empty()) options.schedules = {"plan.yaml"};
  options.schedule_texts[options.schedules.front()] = std::move(text);
  return options;
}

CommandLine parse_command_line(int argc, const char* const* argv, const Verb* verbs, size_t count) {
  CLI::App app("Compiles an ONNX model and a schedule into one executable for many ranks.", "weft");
  app.set_version_flag("--version", "weft " WEFT_VERSION);
  app.require_subcommand(1);
  CommandLine line;
  if (argc > 1 && argv[1][0] != '-' && !is_known_verb(argv[1], verbs, count)) {
    line.exit_code = kUsage;
    return line;
  }
  std::vector<FlagTexts> given(count);
  std::vector<CLI::App*> apps;
  for (size_t i = 0; i < count; ++i) {
    apps.push_back(app.add_subcommand(verbs[i].name, verbs[i].help));
    if (verbs[i].flags & Verb::kMany) apps.back()->group("");  // for tests: not listed
    add_flags(*apps.back(), verbs[i], given[i], line.options);
  }
  try {
    app.parse(argc, argv);
    for (size_t i = 0; i < count; ++i) {
      if (!apps[i]->parsed()) continue;
      understand(verbs[i], given[i], line.options);
      line.verb = &verbs[i];
    }
  } catch (const CLI::ParseError& error) {
    line.exit_code = app.exit(error) == 0 ? 0 : kUsage;
  }
  return line;
}

bool parse_model_flags(const std::vector<std::string>& flags, Options& options, std::string& why) {
  CLI::App app;
  FlagTexts given;
  add_model_flags(app, given);
  app.add_option("--tolerance", options.tolerance);
  add_list(app, "--schedule", options.schedules, "FILE", "");
  try {
    // CLI11 takes the arguments from the back.
    app.parse(std::vector<std::string>(flags.rbegin(), flags.rend()));
    parse_each(given.dims, options.dims, parse_dim_option);
    parse_each(given.shapes, options.shapes, parse_shape_option);
    parse_each(given.binds, options.binds, parse_bind_option);
    parse_each(given.sequences, options.elements, parse_sequence_option);
    parse_each(given.optionals, options.elements, parse_optional_option);
    return true;
  } catch (const CLI::ParseError& error) {
    why = error.what();
    return false;
  }
}

}  // namespace weftc
