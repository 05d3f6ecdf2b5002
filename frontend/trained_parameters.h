// Which initialisers of a model are parameters that a training may change, and which ones its loss never sees.
#pragma once
#include <string>
#include <vector>

#include "frontend/onnx_model.h"

namespace weftc {

/// Initialisers of real numbers with at least a dimension: scalars are numbers of the model's formulas.
struct ParameterTensors {
  std::vector<const OnnxTensor*> trainable;  // on the way to the loss
  std::vector<const OnnxTensor*> apart;      // nodes read them, but the loss depends on none of these
};

ParameterTensors find_parameters(const OnnxModel& model, const std::string& loss);

}  // namespace weftc
