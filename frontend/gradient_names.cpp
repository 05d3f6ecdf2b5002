// Turns the names in a Gradient's attributes into operands.
//
//   dx = Gradient<xs = ["x"], zs = ["w"], y = "loss">(x, w)   ->   dx = Gradient<...>(x, w, loss)
#include "frontend/gradient_names.h"

namespace weftc {

static bool name_gradients(OnnxModel& model, OnnxGraph& graph, Diags& diags) {
  bool ok = true;
  for (OnnxNode& node : graph.nodes) {
    for (OnnxAttr& attr : node.attrs)
      for (OnnxGraph& inner : attr.graphs) ok &= name_gradients(model, inner, diags);
    if (node.op_type != "Gradient" || node.domain != "ai.onnx.preview.training") continue;
    std::vector<std::string> names;
    for (const char* list : {"xs", "zs"})
      if (const OnnxAttr* attr = node.find(list)) names.insert(names.end(), attr->texts.begin(), attr->texts.end());
    const OnnxAttr* y = node.find("y");
    if (!y || y->text.empty()) {
      diags.error("attribute-missing", model.loc(node, 0), "Gradient needs 'y'");
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

bool name_gradients(OnnxModel& model, Diags& diags) { return name_gradients(model, model.graph, diags); }

}  // namespace weftc
