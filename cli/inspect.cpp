// `weft inspect`: what a model is, also one that cannot be compiled.
#include <cstdio>
#include <map>

#include "cli/commands.h"
#include "cli/compile.h"
#include "cli/json.h"
#include "cli/requirements.h"
#include "cli/table.h"
#include "frontend/onnx_inspect.h"
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
  std::printf("{\"ir_version\": %ld, \"producer\": %s,\n \"opsets\": %s,\n \"inputs\": %s,\n \"outputs\": %s,\n",
              static_cast<long>(summary.ir_version), json_string(summary.producer).c_str(),
              counts_json(summary.opsets).c_str(), ports_json(summary.inputs).c_str(),
              ports_json(summary.outputs).c_str());
  std::printf(" \"dims\": %s,\n \"ops\": %s,\n \"unsupported\": %s,\n \"initializer_bytes\": %ld}\n",
              json_strings(summary.dims).c_str(), counts_json(summary.ops).c_str(),
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
  print_ports("outputs", summary.outputs);
  if (!summary.dims.empty()) {
    std::vector<std::string> names;
    for (const std::string& dim : summary.dims) names.push_back(printable(dim));
    std::printf("open dims: %s\n", join(names, ", ").c_str());
  }
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

int run_inspect(const Options& options) {
  if (options.requirements) return show_requirements(options);
  Diags diags;
  const std::optional<ModelSummary> summary = summarise_onnx(options.model, diags);
  if (const int code = finish(diags); code != 0 || !summary) return code;
  if (options.json)
    print_json(*summary);
  else
    print_text(options.model, *summary);
  return summary->unsupported.empty() ? 0 : 3;
}

}  // namespace weftc
