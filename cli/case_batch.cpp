// Compiles many small cases, joins their programs into few sources, builds and runs them. Reading the runtime's
// headers takes most of a small program's build, so 48 cases in one compiler run cost little more than one.
#include "cli/case_batch.h"

#include <algorithm>
#include <cstdio>

#include "backend/emit.h"
#include "backend/pack.h"
#include "backend/toolchain.h"
#include "cli/build.h"
#include "cli/comparison.h"
#include "cli/compile.h"
#include "cli/process.h"
#include "cli/reference.h"
#include "frontend/onnx_inspect.h"
#include "ir/base/check.h"
#include "ir/evaluate/evaluate.h"

namespace weftc {

namespace {

constexpr double kBatchRunSeconds = 60;
constexpr const char* kNoData = "-";  // in place of a folder: seeded inputs and the reference evaluation
// One compiler run for several cases saves reading the headers; one that is too long keeps a core from its share.
constexpr size_t kGroupBytes = 250'000, kGroupCases = 48;

/// A case whose sources are made and wait for their group.
struct Ready {
  size_t number;
  std::unique_ptr<Compilation> compilation;
  KnownData data;
  std::string space;             // its namespace, and its name in the executable
  std::string program, kernels;  // text
  double tolerance;
};

/// The first error with its id, and the node it is about.
std::string first_error(const Diags& diags) {
  for (const Diagnostic& d : diags.all()) {
    if (d.severity != Diagnostic::Severity::Error) continue;
    const std::string where = d.loc.kind == Loc::Kind::Node
                                  ? format(" (node '{}', {})", printable(d.loc.node), printable(d.loc.op_type))
                                  : "";
    return d.id + ": " + d.message + where;
  }
  return "no message";
}

bool has_id(const Diags& diags, std::string_view ending) {
  return std::any_of(diags.all().begin(), diags.all().end(),
                     [&](const Diagnostic& d) { return d.id.ends_with(ending); });
}

/// Compiles one case up to sources, with as little pinned as its model allows.
class CaseCompiler {
 public:
  CaseCompiler(const Options& options, const ManyCase& one, std::string space)
      : options_(options), case_(one), space_(std::move(space)) {
    options_.quiet = true;
  }

  /// The sources, or a result.
  std::optional<Ready> compile(CaseResult& result);

 private:
  bool has_data() const { return case_.data != kNoData; }
  bool read_data(Diags& diags);
  std::unique_ptr<Compilation> compile_pinned(Diags& diags);
  bool bind_inputs(Options& options, int level) const;
  CaseResult evaluate_reference(const Compilation& c, const std::string& why) const;

  Options options_;
  const ManyCase& case_;
  std::string space_;
  std::vector<ModelSummary::Port> inputs_;
  KnownData data_;
};

/// Reads input_N and output_N of the case, for the model's inputs and outputs in order.
bool CaseCompiler::read_data(Diags& diags) {
  const std::optional<ModelSummary> summary = summarise_onnx(case_.model, diags);
  if (!summary) return false;
  inputs_ = summary->inputs;
  std::optional<KnownData> data = read_known_data(case_.data, *summary, diags);
  if (data) data_ = std::move(*data);
  if (options_.elements.empty()) options_.elements = data_.elements;
  return data.has_value();
}

/// Binds inputs that may determine a shape: first integers of at most one dimension, then short ones of any type.
bool CaseCompiler::bind_inputs(Options& options, int level) const {
  options.binds.clear();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].form.is_tensor()) continue;
    const Tensor& tensor = data_.inputs.at(inputs_[i].name);
    const bool wanted = level == 1 ? is_integer(tensor.dtype) : tensor.size() <= 64;
    if (tensor.dims.size() > 1 || !wanted) continue;
    options.binds.push_back({inputs_[i].name, known_input_file(case_.data, i)});
  }
  return !options.binds.empty();
}

/// Nothing is pinned or bound unnecessarily: values known only at run time are the harder case.
std::unique_ptr<Compilation> CaseCompiler::compile_pinned(Diags& diags) {
  Options options = options_;
  for (int level = 0;; ++level) {
    Diags attempt;
    std::unique_ptr<Compilation> c = compile_graph(options, attempt);
    if (!c && has_id(attempt, "open-dim") && options.shapes.empty()) {
      for (const auto& [name, tensor] : data_.inputs) options.shapes.push_back({name, tensor.dims});
      c = compile_graph(options, attempt = Diags());
    }
    const bool bindable = !c && has_id(attempt, "-runtime-unsupported");
    while (bindable && level < 2 && !bind_inputs(options, level + 1)) ++level;
    if (!bindable || level >= 2) {
      diags = std::move(attempt);
      return c;
    }
  }
}

/// Judges a case that has no program by the reference evaluation: without a kernel the graph can still be
/// right.
CaseResult CaseCompiler::evaluate_reference(const Compilation& c, const std::string& why) const {
  const EvalResult result = evaluate(c.module, inputs_in_order(c.module, data_));
  if (!result.error.empty()) return {"wrong", "reference: " + result.error};
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    const std::string& name = c.module.graph.outputs()[i].name;
    const Comparison one =
        compare(name, result.outputs[i], data_.outputs.at(name), tolerance_of(options_, c.module.graph));
    if (!one.detail.empty()) return {"wrong", "reference: " + one.detail};
  }
  return {"no_kernel", why};
}

/// The text of the program's file without its main, or of all its kernels.
std::string joined_text(const std::vector<SourceFile>& files, bool kernels) {
  std::string text;
  for (const SourceFile& file : files) {
    if (kernels ? !file.path.starts_with("kernels/") : file.path != "program.cpp") continue;
    const size_t main_begin = file.text.rfind("\nint main(");
    text += file.text.substr(0, main_begin == std::string::npos ? file.text.size() : main_begin + 1);
  }
  return text;
}

std::optional<Ready> CaseCompiler::compile(CaseResult& result) {
  std::string why;
  Diags diags;
  options_.model = case_.model;
  if (!parse_model_flags(case_.flags, options_, why)) {
    result = {"failed", "flags: " + why};
    return {};
  }
  std::unique_ptr<Compilation> c;
  if (!has_data()) {
    c = compile_graph(options_, diags);
    if (c) data_ = reference_data(*c, options_, diags);
  } else if (read_data(diags)) {
    c = compile_pinned(diags);
  }
  if (c) c->module.name = space_;
  if (!c || !diags.ok() || !compile_plan(*c, options_, diags)) {
    result = {"refused", first_error(diags)};
    return {};
  }
  const std::vector<SourceFile> files = emit(c->plan, diags);
  if (!diags.ok()) {
    result = evaluate_reference(*c, first_error(diags));
    return {};
  }
  const double tolerance = tolerance_of(options_, c->module.graph);
  return Ready{0,        std::move(c), std::move(data_), space_, joined_text(files, false), joined_text(files, true),
               tolerance};
}

/// The source of a program with several cases. The first argument selects the case, and becomes argv[0]. It remains
/// argv[0] in the ranks that the program starts by executing itself.
std::string group_text(const std::vector<Ready*>& group) {
  std::string text = "#include <cstring>\n";
  for (const Ready* one : group) text += one->program + "\n";
  text += "int main(int argc, char** argv) {\n  if (argc > 1 && strncmp(argv[0], \"case_\", 5)) --argc, ++argv;\n";
  for (const Ready* one : group)
    text += format("  if (!strcmp(argv[0], \"{}\")) return weft::main(model::{}::kExecutable, argc, argv);\n",
                   one->space, one->space);
  return text + "  return 2;\n}\n";
}

/// Groups the cases, builds each group as one executable, and runs each case by it.
class Batch {
 public:
  Batch(const Options& options, const std::vector<ManyCase>& cases, const BatchReport& report)
      : options_(options), cases_(cases), report_(report) {}

  void run();

 private:
  bool build(const std::vector<Ready*>& group, const std::string& program, std::string& log) const;
  void build_and_run(const std::vector<Ready*>& group);
  CaseResult run_case(const Ready& ready, const std::string& program) const;

  const Options& options_;
  const std::vector<ManyCase>& cases_;
  const BatchReport& report_;
  WorkFolder work_;
  RuntimeLibrary runtime_;
  int built_ = 0;
};

/// Builds a group; `log` is the compiler's first error.
bool Batch::build(const std::vector<Ready*>& group, const std::string& program, std::string& log) const {
  // Kernels have a file of their own where another compiler reads them.
  const TargetDialect& dialect = dialect_of(options_.target);
  std::string kernels;
  for (const Ready* one : group) kernels += one->kernels + "\n";
  std::vector<SourceFile> files = {{"program.cpp", dialect.toolkit ? group_text(group) : kernels + group_text(group)}};
  if (dialect.toolkit) files.push_back({std::string("kernels/kernels") + dialect.kernel_suffix, kernels});
  Diags diags;
  const BuildOptions build{.work_dir = program + ".sources",
                           .output = program,
                           .runtime_dir = runtime_.folder,
                           .runtime_library = runtime_.library,
                           .compiler = find_compiler(options_.target),
                           .toolkit = find_toolkit(dialect.toolkit),
                           .precompiled = precompiled_folder(),
                           .quick = true,
                           .jobs = 1,
                           .progress = false};
  const bool built = build_program(options_.target, files, build, diags) == BuildResult::Built;
  const std::string all = built ? "" : diags.all().front().message;
  const size_t error = std::min(all.find("error: "), all.size());
  log = error == all.size() ? all : all.substr(error, all.find('\n', error) - error);
  return built;
}

/// Runs one case; its weights are a file beside the executable, because a group has one executable.
CaseResult Batch::run_case(const Ready& ready, const std::string& program) const {
  const std::string folder = work_.path() + "/" + ready.space;
  std::vector<std::string> command = {program, ready.space, "--timeout", "20", "--threads", "1"};
  command.insert(command.end(), options_.run_args.begin(), options_.run_args.end());
  if (weights_bytes(ready.compilation->plan) > 0) {
    const std::string path = folder + "/weights.bin";
    OutputFile file(path);
    if (file.file()) write_weights({&ready.compilation->plan}, file.file());
    if (const std::string why = file.finish(); !why.empty()) return {"failed", "the weights cannot be written: " + why};
    command.insert(command.end(), {"--weights", path});
  }
  const Comparison comparison =
      run_and_compare(command, ready.compilation->plan, ready.data, ready.tolerance, folder, kBatchRunSeconds);
  if (comparison.exit_code == 0) return {"passed", ""};
  return {comparison.exit_code == kMismatch ? "wrong" : "failed", comparison.detail};
}

/// Builds and runs a group. If it does not build, its halves are tried, until the case that is to blame is
/// alone.
void Batch::build_and_run(const std::vector<Ready*>& group) {
  std::string log;
  const std::string program = format("{}/group_{}", work_.path(), built_++);
  report_.builds();
  if (build(group, program, log)) {
    for (const Ready* ready : group) {
      report_.begins(ready->number);
      report_.result(ready->number, run_case(*ready, program));
    }
  } else if (group.size() == 1) {
    report_.result(group[0]->number, {"failed", "the C++ compiler: " + log});
  } else {
    const auto middle = group.begin() + static_cast<long>(group.size() / 2);
    build_and_run({group.begin(), middle});
    build_and_run({middle, group.end()});
  }
}

void Batch::run() {
  Diags diags;
  if (const std::optional<RuntimeLibrary> found = find_runtime(options_.target, diags)) runtime_ = *found;
  std::vector<Ready> ready;
  for (size_t i = 0; i < cases_.size(); ++i) {
    report_.begins(i);
    CaseResult result;
    try {
      std::optional<Ready> one = CaseCompiler(options_, cases_[i], format("case_{}", i)).compile(result);
      if (one) {
        one->number = i;
        ready.push_back(std::move(*one));
        continue;
      }
    } catch (const InternalError& error) {
      result = {"failed", format("internal error: {}", error.what())};
    } catch (const std::exception& error) {
      result = {"failed", format("exception: {}", error.what())};
    }
    report_.result(i, result);
  }
  std::vector<Ready*> group;
  size_t bytes = 0;
  for (Ready& one : ready) {
    if (!group.empty() &&
        (bytes + one.program.size() + one.kernels.size() > kGroupBytes || group.size() == kGroupCases)) {
      build_and_run(group);
      group.clear();
      bytes = 0;
    }
    group.push_back(&one);
    bytes += one.program.size() + one.kernels.size();
  }
  if (!group.empty()) build_and_run(group);
}

}  // namespace

void run_batch(const Options& options, const std::vector<ManyCase>& cases, const BatchReport& report) {
  Batch(options, cases, report).run();
}

}  // namespace weftc
