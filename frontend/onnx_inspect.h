// A summary of a model file, also of one that cannot be compiled: for `weft inspect`, and for matching data with
// inputs.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "frontend/onnx_model.h"

namespace weftc {

/// The contents of a model that `inspect` shows, also of one that cannot be compiled.
struct ModelSummary {
  struct Port {
    std::string name;
    std::string type;  // "float[batch, 3, 224, ?]"
    OnnxForm form = {};
  };
  int64_t ir_version = 0;
  std::string producer;
  std::map<std::string, int64_t> opsets;  // "" is ai.onnx
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  std::vector<Port> defaults;                  // inputs that are initialisers too, of IR 4 or later
  std::vector<std::string> dims;               // names of symbolic dims of inputs, in order
  std::vector<std::string> unnamed;            // "dim 2 of 'x'": dims without a name
  std::map<std::string, int64_t> ops;          // name with domain to number of nodes, functions inlined
  std::map<std::string, int64_t> unsupported;  // the same for ops that no record reads
  int64_t initialiser_bytes = 0;
};
std::optional<ModelSummary> summarise_onnx(const std::string& path, Diags& diags);

}  // namespace weftc
