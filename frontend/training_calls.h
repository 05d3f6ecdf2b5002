// Losses, metrics, optimizers and rates that a schedule calls: functions in ONNX, with the attributes that the schedule
// gives.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "frontend/onnx_model.h"
#include "ir/schedule.h"

namespace weftc {

OnnxAttr attr_of_real(const std::string& name, double real);

class TrainingFunctions {
 public:
  /// Functions are added to the model, whose nodes will call them.
  TrainingFunctions(OnnxModel& model, Diags& diags) : model_(model), diags_(diags) {}

  /// Adds the functions that the compiler has; false after reporting.
  bool take_known();
  /// The function of a call: from a file, or one of domain `weft.KIND`; `otherwise` if the call names none. Nothing
  /// after reporting.
  std::optional<OnnxFunction> find(const FunctionCall& call, const std::string& kind, const char* otherwise);
  /// That function and all others of its name.
  std::vector<OnnxFunction> overloads_of(const OnnxFunction& function) const;
  /// Sets an attribute of a call of the function; false after reporting.
  bool set_argument(const OnnxFunction& function, const FunctionCall::Argument& given, std::vector<OnnxAttr>& attrs);
  /// True if all attributes without a default are given; else reports.
  bool has_required(const OnnxFunction& function, const std::vector<OnnxAttr>& attrs, const FunctionCall& call);

 private:
  bool take(OnnxModel from);
  std::optional<OnnxFunction> known_function(const FunctionCall& call, const std::string& domain,
                                             const std::string& name);
  std::optional<OnnxFunction> function_of_file(const FunctionCall& call);
  bool read_argument(const FunctionCall::Argument& argument, OnnxAttr& into);
  bool is_in_range(const OnnxFunction& function, const FunctionCall::Argument& given, const OnnxAttr& read);

  OnnxModel& model_;
  Diags& diags_;
};

}  // namespace weftc
