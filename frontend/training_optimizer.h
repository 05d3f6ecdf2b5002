// The optimizer of a training: a function of a parameter, or several of one name for parameters of different shapes.
//
//   <domain: "mine", overload: "matrix", opset_import: ["" : 18]>
//   mine (float[R, C] w, float[R, C] gradient, float[R, 1] row, step, rate) => (w_next, row_next) { ... }
//
// is for parameters of two dimensions; its state for a parameter of 4 x 6 is float[4, 1] row.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "frontend/training_calls.h"

namespace weftc {

/// A state that an optimizer keeps for one parameter.
struct OptimizerState {
  std::string name;  // of the function's operand
  int element_type = 0;
  Dims dims;
};

class TrainingOptimizer {
 public:
  /// Nothing after reporting.
  static std::optional<TrainingOptimizer> find(TrainingFunctions& functions, const FunctionCall& call, Diags& diags);

  /// The first function that accepts a parameter of this shape; null after reporting that no function does.
  const OnnxFunction* function_for(const OnnxTensor& parameter, Diags& diags) const;
  /// The states of that function. Each has its declared type, or else the parameter's. Nothing after reporting.
  std::optional<std::vector<OptimizerState>> states_of(const OnnxFunction& function, const OnnxTensor& parameter,
                                                       Diags& diags) const;

 private:
  std::vector<OnnxFunction> functions_;
  Loc loc_;
};

}  // namespace weftc
