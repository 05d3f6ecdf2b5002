// Turns the names in a Gradient's attributes into operands.
//
//   dx = Gradient<xs = ["x"], zs = ["w"], y = "loss">(x, w)   ->   dx = Gradient<...>(x, w, loss)
#include "frontend/gradient_names.h"

namespace weftc {

static bool is_gradient(const OnnxNode& node) {
  return node.op_type == "Gradient" && node.domain == "ai.onnx.preview.training";
}

/// False after reporting a Gradient in a subgraph: the ops that it differentiates may be outside.
static bool check_subgraphs(const OnnxModel& model, const OnnxNode& node, Diags& diags) {
  bool ok = true;
  for (const OnnxAttr& attr : node.attrs)
    for (const OnnxGraph& graph : attr.graphs)
      for (const OnnxNode& inner : graph.nodes) {
        ok &= check_subgraphs(model, inner, diags);
        if (!is_gradient(inner)) continue;
        diags.error("gradient-subgraph-unsupported", model.loc(inner, 0),
                    "a Gradient inside of a branch or loop is not supported");
        ok = false;
      }
  return ok;
}

bool name_gradients(OnnxModel& model, Diags& diags) {
  bool ok = true;
  for (OnnxNode& node : model.graph.nodes) {
    ok &= check_subgraphs(model, node, diags);
    if (!is_gradient(node)) continue;
    std::vector<std::string> names;
    for (const char* list : {"xs", "zs"})
      if (const OnnxAttr* attr = node.find(list)) names.insert(names.end(), attr->texts.begin(), attr->texts.end());
    const OnnxAttr* y = node.find("y");
    if (!y || y->text.empty()) {
      diags.error("gradient-name", model.loc(node, 0), "Gradient needs 'y', the name of what it differentiates");
      ok = false;
    } else if (names != node.inputs) {
      diags.error("gradient-elsewhere-unsupported", model.loc(node, 0),
                  "the operands are not the values that 'xs' and 'zs' name: a gradient at other values than those that "
                  "the model computes with is not supported");
      ok = false;
    } else {
      node.inputs.push_back(y->text);
    }
  }
  return ok;
}

}  // namespace weftc
