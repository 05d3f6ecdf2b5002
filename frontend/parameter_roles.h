// Finds the parameters among the initialisers of a file without the exporter's marks (parameter_marks.h), from their
// readers.
//
//   weights of products, convolutions, recurrent layers and embeddings; scales and biases of norms     parameters
//   y * v, y + v, Concat(v, y) with a vector or table v of a module's name                             parameters
//   masks, tables of sines, one factor for all, what the exporter named (val_7, onnx::Add_7)           constants
//   scalars, unless an op has one as its parameter (PRelu)                                             constants
#pragma once
#include <memory>

#include "frontend/onnx_model.h"

namespace weftc {

/// True for names that exporters invent for precomputed values; not for a name of a module's parameter or buffer.
bool is_exporters_name(const std::string& name);

class ParameterRoles {
 public:
  explicit ParameterRoles(OnnxModel& model);
  ~ParameterRoles();
  bool is_parameter(const OnnxTensor& tensor);
  /// True for a tensor of a module's name that is added to values or multiplied by them. A scalar like this may be a
  /// parameter (`logit_scale`). Others are numbers of formulas, such as the 0.5 of GELU, an exponent, or a bound.
  bool is_named_factor(const OnnxTensor& tensor) const;

 private:
  class Judge;
  std::unique_ptr<Judge> judge_;
};

}  // namespace weftc
