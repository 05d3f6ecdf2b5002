// Determines which initialisers of a model are parameters that a training may change, and which ones its loss does not
// depend on.
//
// Files of PyTorch's exporter mark parameters (parameter_marks.h). In other files they are found by their readers
// (parameter_roles.h).
#pragma once
#include <string>
#include <vector>

#include "frontend/onnx_model.h"

namespace weftc {

/// A parameter that the exporter computed from parameters of the program when it wrote the file.
struct ComputedParameter {
  const OnnxTensor* tensor;
  std::vector<std::string> sources;
};

/// Initialisers of real numbers.
struct ParameterTensors {
  std::vector<const OnnxTensor*> trainable;  // the loss depends on them
  std::vector<const OnnxTensor*> constants;  // the loss depends on them as well, but they are not parameters
  std::vector<const OnnxTensor*> numbers;    // the same for scalars of formulas, such as the 0.5 of GELU
  std::vector<const OnnxTensor*> apart;      // nodes read them, but the loss does not depend on them
  std::vector<ComputedParameter> computed;   // trainable ones; not copies of a single one
  bool is_guessed = false;                   // the file does not give the roles of all
};

ParameterTensors find_parameters(OnnxModel& model, const std::string& loss);

/// True if the file says which of its initialisers are parameters.
bool has_marks(const OnnxModel& model);
/// The parameters that an initialiser was computed from when the file was written.
std::vector<std::string> parameters_after(const OnnxModel& model, const std::string& name);

}  // namespace weftc
