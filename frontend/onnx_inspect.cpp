// Summarises a model from the reader's plain data, before anything is checked that `compile` would refuse.
#include "frontend/onnx_inspect.h"

#include <unordered_set>

#include "frontend/inline_functions.h"
#include "frontend/join_messages.h"
#include "frontend/onnx_load.h"
#include "frontend/onnx_ops.h"
#include "frontend/tensor_bytes.h"
#include "frontend/unfold_attention.h"
#include "frontend/unnamed_dims.h"
#include "ir/base/contains.h"

namespace weftc {

/// Counts nodes by op, including those of subgraphs.
static void count_ops(const std::vector<OnnxNode>& nodes, ModelSummary& summary) {
  for (const OnnxNode& node : nodes) {
    ++summary.ops[full_op_name(node)];
    if (!is_supported(node)) ++summary.unsupported[full_op_name(node)];
    for (const OnnxAttr& attr : node.attrs)
      for (const OnnxGraph& graph : attr.graphs) count_ops(graph.nodes, summary);
  }
}

static void list_open_dims(const OnnxValue& input, ModelSummary& summary) {
  for (size_t d = 0; input.dims && d < input.dims->size(); ++d) {
    const OnnxDim& dim = (*input.dims)[d];
    if (dim.kind == OnnxDim::Kind::Open)
      summary.unnamed.push_back(format("dim {} of '{}'", d, input.name));
    else if (dim.kind == OnnxDim::Kind::Named && !contains(summary.dims, dim.name))
      summary.dims.push_back(dim.name);
  }
}

std::optional<ModelSummary> summarise_onnx(const std::string& path, Diags& diags) {
  std::optional<OnnxModel> model = load_model(path, diags);
  if (!model || !inline_functions(*model, diags) || !unfold_attention(*model, diags)) return {};
  Diags unmatched;  // discarded: the summary lists nodes that are not supported
  join_messages(*model, false, unmatched);
  resolve_opsets(*model);
  unname_dims(*model);
  ModelSummary summary{model->ir_version, model->producer, model->opsets, {}, {}, {}, {}, {}, {}, {}, 0};
  std::unordered_set<std::string> initialisers;
  for (const OnnxTensor& tensor : model->graph.initialisers) {
    initialisers.insert(tensor.name);
    const std::optional<DType> dtype = dtype_of_element_type(tensor.element_type);
    const std::optional<int64_t> count = checked_count(tensor.dims);
    if (dtype && count) summary.initialiser_bytes += *count * dtype_bytes(*dtype);
  }
  for (const OnnxValue& input : model->graph.inputs) {
    if (initialisers.contains(input.name)) {
      if (model->has_defaults()) summary.defaults.push_back({input.name, type_text(input), input.form});
      continue;
    }
    summary.inputs.push_back({input.name, type_text(input), input.form});
    list_open_dims(input, summary);
  }
  for (const OnnxValue& output : model->graph.outputs)
    summary.outputs.push_back({output.name, type_text(output), output.form});
  count_ops(model->graph.nodes, summary);
  return summary;
}

}  // namespace weftc
