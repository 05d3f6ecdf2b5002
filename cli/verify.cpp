// `weft verify`: compiles a model under each schedule, runs it, and compares with known results or the reference
// evaluation.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <new>

#include "cli/commands.h"
#include "cli/comparison.h"
#include "cli/compile.h"
#include "cli/process.h"
#include "cli/reference.h"
#include "cli/table.h"
#include "cli/timed_run.h"
#include "frontend/onnx_inspect.h"
#include "ir/evaluate/evaluate.h"

namespace weftc {

namespace {

/// One row of the table: a schedule, and how it went.
struct Row {
  std::string name;
  std::string ranks = "-", error = "-", result;
  int exit_code = 0;

  Row& ends(int code, std::string text) {
    exit_code = code;
    result = std::move(text);
    return *this;
  }
};

/// Verifies one model under several schedules against the same data.
class Verifier {
 public:
  explicit Verifier(const Options& options) : options_(options) {}

  bool read_data(Diags& diags);
  Row verify(const std::string& schedule, int number);

 private:
  Row& fill(Row& row, const std::string& schedule, int number);
  std::unique_ptr<Compilation> compile(Options& options, Diags& diags) const;
  std::string find_divergence(const Options& options, const KnownData& data, const std::string& folder) const;
  std::string first_difference(const Compilation& c, const std::vector<ValueId>& taps, const KnownData& data,
                               const std::string& program, const std::string& folder) const;

  const Options& options_;
  WorkFolder work_;
  std::optional<KnownData> data_;
};

bool Verifier::read_data(Diags& diags) {
  if (options_.data.empty()) return true;
  const std::optional<ModelSummary> summary = summarise_onnx(options_.model, diags);
  if (!summary) return false;
  data_ = read_known_data(options_.data, *summary, diags);
  return data_.has_value();
}

bool has_error(const Diags& diags, std::string_view id) {
  for (const Diagnostic& d : diags.all())
    if (d.severity == Diagnostic::Severity::Error && d.id == id) return true;
  return false;
}

/// Dims that are not pinned are taken from the data.
std::unique_ptr<Compilation> Verifier::compile(Options& options, Diags& diags) const {
  Diags first;
  if (data_ && options.elements.empty()) options.elements = data_->elements;
  std::unique_ptr<Compilation> c = compile_graph(options, first);
  if (!c && data_ && has_error(first, "open-dim")) {
    for (const auto& [name, tensor] : data_->inputs) options.shapes.push_back({name, tensor.dims});
    return compile_graph(options, diags);
  }
  diags = std::move(first);
  return c;
}

/// The values that lie in memory between kernels and have a global meaning become outputs tap_0, tap_1 ...
std::vector<ValueId> add_taps(Module& module) {
  std::vector<ValueId> taps;
  for (const OpId id : module.graph.order()) {
    if (category(module.graph.op(id)) == Category::Source) continue;
    for (const ValueId value : module.graph.op(id).outputs)
      if (!module.graph.type(value).layout.has(AxisState::Kind::P)) taps.push_back(value);
  }
  for (size_t i = 0; i < taps.size(); ++i) module.graph.add_output(taps[i], format("tap_{}", i));
  return taps;
}

std::string Verifier::first_difference(const Compilation& c, const std::vector<ValueId>& taps, const KnownData& data,
                                       const std::string& program, const std::string& folder) const {
  const std::vector<std::vector<Tensor>> inputs(static_cast<size_t>(data.iterations), inputs_in_order(c.module, data));
  const EvalResult result = evaluate_invocations(c.module, inputs).back();
  if (!result.error.empty()) return "the reference evaluation failed: " + result.error;
  const Comparison run = run_on({program}, c.plan, data, folder, kRunSeconds);
  if (run.exit_code != 0) return run.detail;
  const auto& outputs = c.module.graph.outputs();
  for (size_t i = 0; i < taps.size(); ++i) {
    // The taps are the last outputs.
    const size_t output = outputs.size() - taps.size() + i;
    const Comparison comparison = compare_output(c.plan, outputs[output].name, result.outputs[output],
                                                 tolerance_of(options_, c.module.graph), folder);
    if (comparison.detail.empty()) continue;
    const Op& op = c.module.graph.producer_op(taps[i]);
    std::vector<std::string> nodes;
    for (const OriginId origin : op.origins) {
      const Origin& node = c.module.origins[origin.index];
      nodes.push_back(format("'{}' ({}, #{})", printable(node.name), printable(node.op_type), node.index));
    }
    if (nodes.size() > 4) nodes = {nodes[0], nodes[1], format("{} more", nodes.size() - 2)};
    return format("the first value that differs from the reference evaluation is '{}' of node {}: {}",
                  printable(c.module.graph.value(taps[i]).name), join(nodes, ", "), comparison.detail);
  }
  return "no value between kernels differs from the reference evaluation of the compiled graph";
}

std::string Verifier::find_divergence(const Options& options, const KnownData& data, const std::string& folder) const {
  Diags diags;
  const std::unique_ptr<Compilation> c = compile_graph(options, diags);
  if (!c) return diags.text();
  const std::vector<ValueId> taps = add_taps(c->module);
  Options tapped = options;
  tapped.output = folder + "/tapped";
  if (!compile_plan(*c, options, diags) || compile_program(*c, tapped, diags) != 0)
    return "the tap build failed: " + diags.text();
  return first_difference(*c, taps, data, tapped.output, folder);
}

/// Where one schedule breaks the compiler, the others are verified all the same.
Row Verifier::verify(const std::string& schedule, int number) {
  Row row;
  row.name = schedule.empty() ? "one rank" : schedule;
  const std::string name = printable(row.name);
  try {
    fill(row, schedule, number);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: error: out of memory\n", name.c_str());
    row.ends(kEnvironment, "out of memory");
  } catch (const std::exception& error) {
    std::fprintf(stderr,
                 "%s: internal error: %s\n"
                 "This is a bug of weft; please report it with the model, the schedule and the command.\n",
                 name.c_str(), error.what());
    row.ends(kBug, "internal error");
  }
  // A run that failed or differs has said so, with the schedule's name.
  if (row.exit_code != 0 && row.result != "FAIL")
    std::fprintf(stderr, "%s: failed: %s, exit code %d\n", name.c_str(), row.result.c_str(), row.exit_code);
  return row;
}

Row& Verifier::fill(Row& row, const std::string& schedule, int number) {
  Options options = options_;
  options.schedules = schedule.empty() ? std::vector<std::string>{} : std::vector<std::string>{schedule};
  const std::string folder = format("{}/{}", work_.path(), number);
  std::filesystem::create_directories(folder);
  options.output = folder + "/program";
  Diags diags;
  const std::unique_ptr<Compilation> c = compile(options, diags);
  if (!c || !compile_plan(*c, options, diags)) return row.ends(finish(diags), "refused");
  row.ranks = std::to_string(c->plan.world);
  if (const int code = compile_program(*c, options, diags); code != 0) {
    finish(diags);
    return row.ends(code, "not built");
  }
  if (!data_) progress(options, "evaluating the reference");
  const KnownData data = data_ ? *data_ : reference_data(*c, options, diags);
  if (const int code = finish(diags); code != 0) return row.ends(code, "no reference");
  const Comparison comparison =
      run_and_compare({options.output}, c->plan, data, tolerance_of(options, c->module.graph), folder, kRunSeconds);
  row.error = comparison.exit_code == 0 || comparison.exit_code == kMismatch ? error_text(comparison.error) : "-";
  if (comparison.exit_code == 0) return row.ends(0, "ok");
  std::fprintf(stderr, "%s: error: %s\n", printable(row.name).c_str(), comparison.detail.c_str());
  if (options.taps)
    std::fprintf(stderr, "%s: note: %s\n", printable(row.name).c_str(), find_divergence(options, data, folder).c_str());
  return row.ends(comparison.exit_code, "FAIL");
}

}  // namespace

int run_verify(const Options& options) {
  Diags diags;
  Verifier verifier(options);
  if (!verifier.read_data(diags)) return finish(diags);
  std::vector<std::string> schedules = options.schedules;
  if (schedules.empty()) schedules.emplace_back();
  std::vector<std::vector<std::string>> cells = {{"schedule", "ranks", "error", "result"}};
  int exit_code = 0;
  for (size_t i = 0; i < schedules.size(); ++i) {
    const Row row = verifier.verify(schedules[i], static_cast<int>(i));
    cells.push_back({printable(row.name), row.ranks, row.error, row.result});
    if (row.exit_code != 0 && (exit_code == 0 || row.exit_code < exit_code)) exit_code = row.exit_code;
  }
  std::fputs(table_text(cells).c_str(), stdout);
  return exit_code;
}

}  // namespace weftc
