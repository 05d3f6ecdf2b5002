// Reads a model in this order: check versions, inline functions, join messages, sort nodes, read annotations, import
// inputs and nodes. After errors the import continues to its end, so that one run reports as many errors as possible.
#include "frontend/onnx_reader.h"

#include <algorithm>

#include "frontend/attribute_opsets.h"
#include "frontend/device_annotations.h"
#include "frontend/gradient_names.h"
#include "frontend/graph_depth.h"
#include "frontend/inline_functions.h"
#include "frontend/join_messages.h"
#include "frontend/module_paths.h"
#include "frontend/old_opsets.h"
#include "frontend/onnx_import.h"
#include "frontend/onnx_load.h"
#include "frontend/onnx_text.h"
#include "frontend/share_nodes.h"
#include "frontend/sort_nodes.h"
#include "frontend/training_step.h"
#include "frontend/unfold_attention.h"
#include "frontend/unnamed_dims.h"

namespace weftc {

namespace {

constexpr int64_t kNewestIr = 14;
constexpr int64_t kOldestOpset = 1;
constexpr int64_t kNewestOpset = 28;

bool check_versions(const OnnxModel& model, Diags& diags) {
  const Loc loc = Loc::in_file(model.file);
  const int errors = diags.errors();
  if (model.ir_version > kNewestIr)
    diags.error("ir-version-unsupported", loc, "the model has IR version {}, this reads up to {}", model.ir_version,
                kNewestIr);
  const auto opset = model.opsets.find("");
  if (opset != model.opsets.end() && (opset->second < kOldestOpset || opset->second > kNewestOpset))
    diags.error("opset-unsupported", loc, "the model uses opset {} of ai.onnx, this reads {} to {}", opset->second,
                kOldestOpset, kNewestOpset);
  return errors == diags.errors();
}

/// All other domains are at version 1, and exporters forget to import them. The version of ai.onnx cannot be guessed.
bool check_domains(OnnxModel& model, Diags& diags) {
  const std::vector<std::string> missing = resolve_opsets(model);
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

/// Op names are unique in the module: inputs come first, then nodes with names, then nodes named after results.
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

/// With two initialisers of one name, it would be undefined which one a node reads.
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

/// A C++ identifier from the file's name, for the emitted program.
std::string identifier_of(const std::string& path) {
  std::string stem = path.substr(path.rfind('/') + 1);
  stem = stem.substr(0, stem.find('.'));
  for (char& c : stem)
    if (!((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'))) c = '_';
  const bool letter = !stem.empty() && (stem[0] | 32) >= 'a' && (stem[0] | 32) <= 'z';
  return letter ? stem : "model_" + stem;
}

/// Binds the states that a training step carries from step to step, and their first values; false after reporting.
bool bind_trained_states(ImportState& state, const WrittenStep& step, const Loc& loc) {
  state.module.training = step.training;
  for (const TrainedState& each : step.states) {
    State made{each.name, each.next, loc, {}, each.of};
    if (each.first) {
      const auto first = state.constant(*each.first, "initializer '" + printable(each.name) + "'", each.first->loc);
      if (!first) return false;
      made.initial = *first;
    }
    state.module.states.push_back(std::move(made));
  }
  return true;
}

/// Reports sections of a schedule that do not support a training's states yet.
bool goes_with_training(const Schedule& schedule, Diags& diags) {
  const std::pair<const char*, bool> others[] = {{"generate:", schedule.generate.has_value()},
                                                 {"state:", !schedule.states.empty()},
                                                 {"view: per-rank", schedule.per_rank}};
  for (const auto& [name, is_there] : others)
    if (is_there)
      diags.error("train-with-unsupported", schedule.train->loc, "'train:' and '{}' do not go together yet", name);
  return diags.ok();
}

/// Inlines functions. With `train:`, then writes the training step into the model, and inlines the calls that the step
/// adds.
bool write_out_functions(OnnxModel& model, const Schedule* schedule, std::optional<WrittenStep>& step, Diags& diags) {
  if (!schedule || !schedule->train) return inline_functions(model, diags);
  if (!goes_with_training(*schedule, diags) || !inline_functions(model, diags)) return false;
  const bool rounds_to_f16 =
      std::ranges::any_of(schedule->precision, [](const PrecisionEntry& entry) { return entry.dtype == DType::F16; });
  step = write_training_step(model, *schedule, rounds_to_f16, diags);
  if (!step || !inline_functions(model, diags)) return false;
  sort_nodes(model.graph);
  share_equal_nodes(model.graph);
  return true;
}

/// With a schedule, the model's annotations are added to it.
std::optional<Module> import_model(OnnxModel& model, const ReadOptions& options, Schedule* schedule, Diags& diags) {
  const bool per_rank = schedule && schedule->per_rank;
  unname_dims(model);
  std::optional<WrittenStep> step;
  if (!check_versions(model, diags) || !write_out_functions(model, schedule, step, diags) ||
      !check_graph_depth(model, diags) || !unfold_attention(model, diags) || !name_gradients(model, diags) ||
      !join_messages(model, per_rank, diags) || !check_domains(model, diags) ||
      !check_attribute_opsets(model, step.has_value(), diags) || !modernise_nodes(model, diags))
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
  if (schedule) schedule->aliases = module_aliases(model);
  ImportScope scope(model.graph, module.graph, nullptr);
  const bool inputs = import_inputs(state, options, scope);
  const bool graph = import_graph(state, scope);
  for (const std::string& name : state.defaulted)
    if (const ValueId value = module.graph.find_value(name)) module.graph.add_output(value, name);
  const bool bound = !step || bind_trained_states(state, *step, schedule->train->loc);
  if (!initialisers || !supported || !inputs || !graph || !bound) return {};
  for (auto& memory : model.memory) module.constants.keep(std::move(memory));
  return module;
}

}  // namespace

std::optional<Module> read_onnx(const ReadOptions& options, Diags& diags, Schedule* schedule) {
  std::optional<OnnxModel> model = load_model(options.path, diags);
  if (!model) return {};
  return import_model(*model, options, schedule, diags);
}

std::optional<Module> read_onnx_source(const std::string& text, const ReadOptions& options, Diags& diags,
                                       Schedule* schedule) {
  std::optional<OnnxModel> model = read_onnx_text(options.path, text, diags);
  if (!model) return {};
  return import_model(*model, options, schedule, diags);
}

}  // namespace weftc
