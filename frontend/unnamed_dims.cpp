// paddle2onnx writes "?" for each unknown length, tf2onnx an invented name.
#include "frontend/unnamed_dims.h"

#include <algorithm>
#include <map>

namespace weftc {

/// True for a name that exporters use as a placeholder.
static bool is_placeholder(const std::string& name) {
  const auto is_word = [](unsigned char c) { return c >= 0x80 || std::isalnum(c) != 0; };
  const bool is_negative = name.size() > 1 && name[0] == '-' && std::all_of(name.begin() + 1, name.end(), ::isdigit);
  return is_negative || name == "None" || std::none_of(name.begin(), name.end(), is_word);
}

void unname_dims(OnnxModel& model) {
  std::map<std::string, std::vector<OnnxDim*>> by_name;
  for (OnnxValue& input : model.graph.inputs)
    if (input.dims)
      for (OnnxDim& dim : *input.dims)
        if (dim.kind == OnnxDim::Kind::Named) by_name[dim.name].push_back(&dim);
  for (const auto& [name, dims] : by_name) {
    const bool is_made_up = name.starts_with("unk__") && dims.size() > 1;
    if (is_made_up || is_placeholder(name))
      for (OnnxDim* dim : dims) *dim = {};
  }
}

}  // namespace weftc
