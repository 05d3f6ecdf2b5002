// Records every name of a model, and numbers new ones that are taken.
#include "frontend/fresh_names.h"

namespace weftc {

void FreshNames::take(const OnnxGraph& graph) {
  for (const OnnxValue& input : graph.inputs) taken_.insert(input.name);
  for (const OnnxTensor& tensor : graph.initialisers) taken_.insert(tensor.name);
  for (const OnnxNode& node : graph.nodes) {
    taken_.insert(node.outputs.begin(), node.outputs.end());
    for (const OnnxAttr& attr : node.attrs)
      for (const OnnxGraph& inner : attr.graphs) take(inner);
  }
}

std::string FreshNames::fresh(const std::string& name) {
  std::string made = name;
  for (int i = 2; !taken_.insert(made).second; ++i) made = name + "_" + std::to_string(i);
  return made;
}

}  // namespace weftc
