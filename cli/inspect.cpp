// `weft inspect`: a summary of a model, also of one that cannot be compiled.
#include <cstdio>
#include <map>

#include "cli/commands.h"
#include "cli/compile.h"
#include "cli/json.h"
#include "cli/requirements.h"
#include "cli/table.h"
#include "frontend/onnx_inspect.h"
#include "frontend/onnx_reader.h"
#include "ir/op_def.h"

namespace weftc {

namespace {

std::string ports_json(const std::vector<ModelSummary::Port>& ports) {
  std::vector<std::string> items;
  for (const auto& port : ports)
    items.push_back(json_object({{"name", json_string(port.name)}, {"type", json_string(port.type)}}));
  return json_lines(items);
}

std::string counts_json(const std::map<std::string, int64_t>& counts) {
  std::vector<std::pair<std::string, std::string>> fields;
  for (const auto& [name, count] : counts) fields.emplace_back(name, std::to_string(count));
  return json_object(fields);
}

void print_json(const ModelSummary& summary) {
  std::printf(
      "{\"ir_version\": %ld, \"producer\": %s,\n \"opsets\": %s,\n \"inputs\": %s,\n \"defaults\": %s,\n \"outputs\": "
      "%s,\n",
      static_cast<long>(summary.ir_version), json_string(summary.producer).c_str(), counts_json(summary.opsets).c_str(),
      ports_json(summary.inputs).c_str(), ports_json(summary.defaults).c_str(), ports_json(summary.outputs).c_str());
  std::printf(
      " \"dims\": %s,\n \"unnamed_dims\": %s,\n \"ops\": %s,\n \"unsupported\": %s,\n \"initializer_bytes\": %ld}\n",
      json_strings(summary.dims).c_str(), json_strings(summary.unnamed).c_str(), counts_json(summary.ops).c_str(),
      counts_json(summary.unsupported).c_str(), static_cast<long>(summary.initialiser_bytes));
}

void print_ports(const char* title, const std::vector<ModelSummary::Port>& ports) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& port : ports) rows.push_back({printable(port.name), printable(port.type)});
  std::printf("%s\n%s", title, table_text(rows).c_str());
}

void print_counts(const char* title, const std::map<std::string, int64_t>& counts) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, count] : counts) rows.push_back({printable(name), std::to_string(count)});
  std::printf("%s\n%s", title, table_text(rows).c_str());
}

void print_text(const std::string& model, const ModelSummary& summary) {
  std::vector<std::string> opsets;
  for (const auto& [domain, version] : summary.opsets)
    opsets.push_back(format("{} {}", domain.empty() ? "ai.onnx" : printable(domain), version));
  std::printf("%s: IR version %ld, %s", printable(model).c_str(), static_cast<long>(summary.ir_version),
              opsets.empty() ? "no opset" : ("opset " + join(opsets, ", ")).c_str());
  if (!summary.producer.empty()) std::printf(", by %s", printable(summary.producer).c_str());
  std::printf(", %s of initializers\n", bytes_text(summary.initialiser_bytes).c_str());
  print_ports("inputs", summary.inputs);
  if (!summary.defaults.empty()) print_ports("inputs with a default (--override, --bind)", summary.defaults);
  print_ports("outputs", summary.outputs);
  std::vector<std::string> open;
  for (const std::string& dim : summary.dims) open.push_back(printable(dim));
  for (const std::string& dim : summary.unnamed) open.push_back(printable(dim) + " (--shape)");
  if (!open.empty()) std::printf("open dims: %s\n", join(open, ", ").c_str());
  print_counts("operators", summary.ops);
  if (!summary.unsupported.empty()) print_counts("not supported", summary.unsupported);
}

}  // namespace

int finish(const Diags& diags) {
  std::fputs(diags.text().c_str(), stderr);
  return diags.exit_code();
}

static int show_requirements(const Options& options) {
  Diags diags;
  const std::unique_ptr<Compilation> compiled = compile_graph(options, diags);
  if (compiled && compile_plan(*compiled, options, diags)) print_requirements(compiled->plan, options.json);
  return finish(diags);
}

/// Reports errors that compile would report for any dims. The summary already has open dims and unsupported features.
static void report_faults(const Options& options, Diags& diags) {
  Diags found;
  read_onnx({options.model, options.dims, options.shapes, options.binds, options.elements, options.overrides}, found);
  bool is_shown = false;
  for (const Diagnostic& each : found.all()) {
    if (each.severity == Diagnostic::Severity::Error)
      is_shown = !each.id.starts_with("open-") && !each.id.ends_with("-unsupported");
    if (each.severity == Diagnostic::Severity::Warning || !is_shown) continue;
    if (each.severity == Diagnostic::Severity::Error)
      diags.error(each.id, each.loc, "{}", each.message);
    else
      Diags::Report(diags).note(each.loc, "{}", each.message);
  }
}

int run_inspect(const Options& options) {
  if (options.requirements) return show_requirements(options);
  Diags diags;
  const std::optional<ModelSummary> summary = summarise_onnx(options.model, diags);
  if (const int code = finish(diags); code != 0 || !summary) return code;
  if (options.json)
    print_json(*summary);
  else
    print_text(options.model, *summary);
  report_faults(options, diags);
  if (!diags.ok()) return finish(diags);
  return summary->unsupported.empty() ? 0 : 3;
}

}  // namespace weftc
