// Inputs that are not tensors: a sequence of three becomes three inputs x.0, x.1, x.2 of the executable, an optional
// becomes one input or none. --sequence and --optional give the number.
#pragma once
#include <string>
#include <vector>

#include "frontend/onnx_import.h"

namespace weftc {

/// An input that is a sequence, or an optional that is absent, and the names of its tensors.
struct WholeInput {
  OnnxValue input;
  bool is_absent = false;
  std::vector<std::string> tensors;
};

/// The tensors of all inputs, and the inputs that do not have exactly one. False after reporting.
bool unfold_inputs(const std::vector<OnnxValue>& inputs, const ReadOptions& options, ImportState& state,
                   std::vector<OnnxValue>& tensors, std::vector<WholeInput>& wholes);
/// Adds ops that combine the tensors into such an input under its name.
void fold_inputs(const std::vector<WholeInput>& wholes, ImportState& state, ImportScope& scope);
/// "; did you mean ...", or else all existing names.
std::string names_there_are(const std::string& name, const std::vector<std::string>& known);

}  // namespace weftc
