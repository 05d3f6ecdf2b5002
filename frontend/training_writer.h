// Nodes that are added to a model for its training.
#pragma once
#include <string>
#include <vector>

#include "frontend/onnx_model.h"

namespace weftc {

/// An input that is the output `next` of the previous step; in the first step `first`, or zeros if that is null.
struct TrainedState {
  std::string name, next;
  const OnnxTensor* first = nullptr;  // in the model's `parameters`
  std::string of = {};                // the parameter that an optimizer's state belongs to
};

OnnxAttr attr_of_int(const std::string& name, int64_t integer);
OnnxAttr attr_of_text(const std::string& name, const std::string& text);
OnnxAttr attr_of_ints(const std::string& name, std::vector<int64_t> ints);
OnnxAttr attr_of_texts(const std::string& name, std::vector<std::string> texts);

class TrainingWriter {
 public:
  explicit TrainingWriter(OnnxModel& model) : model_(model) {}

  /// Errors in nodes added from here on are reported at this position in the schedule.
  void add_for(const Loc& loc);
  int call_site() const { return call_site_; }
  OnnxNode& add(const std::string& op_type, std::vector<std::string> inputs, std::vector<std::string> outputs);
  /// Adds a call of one of the compiler's functions. `name` is the node's, and a prefix of the names of its values.
  OnnxNode& call(const std::string& name, const std::string& domain, const std::string& function,
                 std::vector<std::string> inputs, std::vector<std::string> outputs);
  void add_scalar(const std::string& name, double value);
  TrainedState& add_state(const std::string& name, const std::string& next, int element_type, const Dims& dims);
  /// A state of one float with initial value `first`.
  void add_number(const std::string& name, const std::string& next, float first);

  std::vector<TrainedState>& states() { return states_; }

 private:
  OnnxModel& model_;
  int call_site_ = -1;  // of added nodes
  std::vector<TrainedState> states_;
};

}  // namespace weftc
