// Chooses the reader by the file's name, and gives nodes their opsets.
#include "frontend/onnx_load.h"

#include <algorithm>

#include "frontend/mapped_file.h"
#include "frontend/onnx_proto.h"
#include "frontend/onnx_text.h"
#include "ir/base/contains.h"

namespace weftc {

std::optional<OnnxModel> load_model(const std::string& path, Diags& diags) {
  if (!path.ends_with(".onnxtxt")) return read_onnx_binary(path, diags);
  const MappedFile file = map_file(path);
  if (file.error.empty())
    return read_onnx_text(path, {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()}, diags);
  diags.error("model-text-file", Loc::in_file(path), "the model cannot be read: {}", file.error);
  return {};
}

/// Gives nodes the opsets of their domains; collects the domains that the model does not import.
static void resolve_opsets(const OnnxModel& model, std::vector<OnnxNode>& nodes, std::vector<std::string>& missing) {
  for (OnnxNode& node : nodes) {
    for (OnnxAttr& attr : node.attrs)
      for (OnnxGraph& graph : attr.graphs) resolve_opsets(model, graph.nodes, missing);
    if (node.opset != 0) continue;
    const auto opset = model.opsets.find(node.domain);
    const bool imported = opset != model.opsets.end();
    node.opset = imported ? static_cast<int>(std::clamp<int64_t>(opset->second, 1, 1 << 20)) : 1;
    if (!imported && !contains(missing, node.domain)) missing.push_back(node.domain);
  }
}

std::vector<std::string> resolve_opsets(OnnxModel& model) {
  std::vector<std::string> missing;
  resolve_opsets(model, model.graph.nodes, missing);
  return missing;
}

}  // namespace weftc
