#include "frontend/onnx_reader.h"

#include <algorithm>

#include "frontend/device_annotations.h"
#include "frontend/inline_functions.h"
#include "frontend/join_messages.h"
#include "frontend/mapped_file.h"
#include "frontend/onnx_import.h"
#include "frontend/onnx_proto.h"
#include "frontend/onnx_text.h"
#include "frontend/sort_nodes.h"

namespace weftc {

namespace {

constexpr int64_t kNewestIr = 14;
constexpr int64_t kOldestOpset = 7;
constexpr int64_t kNewestOpset = 28;

bool check_versions(const OnnxModel& model, Diags& diags) {
  const Loc loc = Loc::in_file(model.file);
  const int errors = diags.errors();
  if (model.ir_version > kNewestIr)
    diags.error("ir-version-unsupported", loc, "the model has IR version {}, this reads up to {}", model.ir_version,
                kNewestIr);
  const auto opset = model.opsets.find("");
  const int64_t version = opset == model.opsets.end() ? 0 : opset->second;
  if (version && (version < kOldestOpset || version > kNewestOpset))
    diags.error("opset-unsupported", loc, "the model uses opset {} of ai.onnx, this reads {} to {}", version,
                kOldestOpset, kNewestOpset);
  return errors == diags.errors();
}

/// Gives every node the opset of its domain; collects the domains that the model does not import.
void resolve_opsets(const OnnxModel& model, std::vector<OnnxNode>& nodes, std::vector<std::string>& missing) {
  for (OnnxNode& node : nodes) {
    for (OnnxAttr& attr : node.attrs)
      for (OnnxGraph& graph : attr.graphs) resolve_opsets(model, graph.nodes, missing);
    if (node.opset != 0) continue;
    const auto opset = model.opsets.find(node.domain);
    const bool imported = opset != model.opsets.end();
    node.opset = imported ? static_cast<int>(std::clamp<int64_t>(opset->second, 1, 1 << 20)) : 1;
    if (!imported && std::find(missing.begin(), missing.end(), node.domain) == missing.end())
      missing.push_back(node.domain);
  }
}

/// Other domains are at version 1 everywhere, and exporters forget to import them; ai.onnx has no version to guess.
bool check_domains(OnnxModel& model, Diags& diags) {
  std::vector<std::string> missing;
  resolve_opsets(model, model.graph.nodes, missing);
  const Loc loc = Loc::in_file(model.file);
  bool ok = true;
  for (const std::string& domain : missing) {
    if (domain.empty()) {
      diags.error("opset-missing", loc, "the model does not say which opset of ai.onnx it uses");
      ok = false;
    } else {
      diags.warning("domain-not-imported", loc,
                    "nodes use domain '{}', of which the model imports no opset; taken as version 1",
                    printable(domain));
    }
  }
  return ok;
}

/// Op names are unique in the module: inputs keep theirs, then come nodes with names, then those named after results.
void name_nodes(ImportState& state, std::vector<OnnxNode>& nodes, bool named) {
  for (OnnxNode& node : nodes) {
    for (OnnxAttr& attr : node.attrs)
      for (OnnxGraph& graph : attr.graphs) name_nodes(state, graph.nodes, named);
    if (node.name.empty() == named) continue;
    const std::string name = shown_name(node);
    node.name = state.unique_op_name(name.empty() ? node.op_type : name);
  }
}

void name_ops(ImportState& state) {
  for (const OnnxValue& input : state.model.graph.inputs) state.op_names.insert(input.name);
  for (const bool named : {true, false}) name_nodes(state, state.model.graph.nodes, named);
}

bool check_initialisers(const OnnxModel& model, const OnnxGraph& graph, Diags& diags) {
  std::unordered_set<std::string> seen;
  bool ok = true;
  for (const OnnxTensor& tensor : graph.initialisers) {
    if (seen.insert(tensor.name).second) continue;
    diags.error("initializer-repeated", Loc::in_file(model.file), "initializer '{}' is defined twice",
                printable(tensor.name));
    ok = false;
  }
  return ok;
}

std::string identifier_of(const std::string& path) {
  std::string stem = path.substr(path.rfind('/') + 1);
  stem = stem.substr(0, stem.find('.'));
  for (char& c : stem)
    if (!((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'))) c = '_';
  const bool letter = !stem.empty() && (stem[0] | 32) >= 'a' && (stem[0] | 32) <= 'z';
  return letter ? stem : "model_" + stem;
}

std::optional<OnnxModel> load(const std::string& path, Diags& diags) {
  if (!path.ends_with(".onnxtxt")) return read_onnx_binary(path, diags);
  const MappedFile file = map_file(path);
  if (file.error.empty())
    return read_onnx_text(path, {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()}, diags);
  diags.error("model-text-file", Loc::in_file(path), "the model cannot be read: {}", file.error);
  return {};
}

/// With a schedule, what the model's annotations say goes into it.
std::optional<Module> import_model(OnnxModel& model, const ReadOptions& options, Schedule* schedule, Diags& diags) {
  const bool per_rank = schedule && schedule->per_rank;
  if (!check_versions(model, diags) || !inline_functions(model, diags) || !join_messages(model, per_rank, diags) ||
      !check_domains(model, diags))
    return {};
  drop_repeated_constants(model, model.graph, diags);
  sort_nodes(model.graph);
  if (schedule && !read_annotations(model, *schedule, diags)) return {};
  Module module;
  module.file = model.file;
  module.name = identifier_of(model.file);
  ImportState state(model, module, diags);
  const bool initialisers = check_initialisers(model, model.graph, diags);
  const bool supported = check_supported(model, diags);
  name_ops(state);
  ImportScope scope(model.graph, module.graph, nullptr);
  const bool inputs = import_inputs(state, options, scope);
  const bool graph = import_graph(state, scope);
  if (!initialisers || !supported || !inputs || !graph) return {};
  for (auto& memory : model.memory) module.constants.keep(std::move(memory));
  return module;
}

}  // namespace

std::optional<Module> read_onnx(const ReadOptions& options, Diags& diags, Schedule* schedule) {
  std::optional<OnnxModel> model = load(options.path, diags);
  if (!model) return {};
  return import_model(*model, options, schedule, diags);
}

std::optional<Module> read_onnx_source(const std::string& text, const ReadOptions& options, Diags& diags,
                                       Schedule* schedule) {
  std::optional<OnnxModel> model = read_onnx_text(options.path, text, diags);
  if (!model) return {};
  return import_model(*model, options, schedule, diags);
}

static std::string type_text(const OnnxValue& value) {
  if (!value.other_type.empty()) return value.other_type;
  std::string text = element_type_name(value.element_type);
  if (!value.dims) return text + "[...]";
  std::vector<std::string> dims;
  for (const OnnxDim& dim : *value.dims)
    dims.push_back(dim.kind == OnnxDim::Kind::Fixed   ? std::to_string(dim.extent)
                   : dim.kind == OnnxDim::Kind::Named ? dim.name
                                                      : "?");
  return dims.empty() ? text : text + "[" + join(dims, ", ") + "]";
}

static void count_ops(const std::vector<OnnxNode>& nodes, ModelSummary& summary) {
  for (const OnnxNode& node : nodes) {
    ++summary.ops[full_op_name(node)];
    if (!is_supported(node)) ++summary.unsupported[full_op_name(node)];
    for (const OnnxAttr& attr : node.attrs)
      for (const OnnxGraph& graph : attr.graphs) count_ops(graph.nodes, summary);
  }
}

std::optional<ModelSummary> summarise_onnx(const std::string& path, Diags& diags) {
  std::optional<OnnxModel> model = load(path, diags);
  if (!model || !inline_functions(*model, diags)) return {};
  Diags unmatched;  // those nodes are not supported, which the summary says of others too
  join_messages(*model, false, unmatched);
  std::vector<std::string> missing;
  resolve_opsets(*model, model->graph.nodes, missing);
  ModelSummary summary{model->ir_version, model->producer, model->opsets, {}, {}, {}, {}, {}, 0};
  std::unordered_set<std::string> initialisers;
  for (const OnnxTensor& tensor : model->graph.initialisers) {
    initialisers.insert(tensor.name);
    const std::optional<DType> dtype = dtype_of_element_type(tensor.element_type);
    const std::optional<int64_t> count = checked_count(tensor.dims);
    if (dtype && count) summary.initialiser_bytes += *count * dtype_bytes(*dtype);
  }
  for (const OnnxValue& input : model->graph.inputs) {
    if (initialisers.contains(input.name)) continue;
    summary.inputs.push_back({input.name, type_text(input)});
    for (const OnnxDim& dim : input.dims.value_or(std::vector<OnnxDim>{}))
      if (dim.kind == OnnxDim::Kind::Named &&
          std::find(summary.dims.begin(), summary.dims.end(), dim.name) == summary.dims.end())
        summary.dims.push_back(dim.name);
  }
  for (const OnnxValue& output : model->graph.outputs) summary.outputs.push_back({output.name, type_text(output)});
  count_ops(model->graph.nodes, summary);
  return summary;
}

}  // namespace weftc
