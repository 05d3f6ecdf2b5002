// Chooses the initialisers that a training changes: the model's parameters by default, modified by the schedule.
#pragma once
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "frontend/tied_copies.h"
#include "frontend/trained_parameters.h"
#include "frontend/training_writer.h"
#include "ir/schedule.h"

namespace weftc {

class ParameterChoice {
 public:
  ParameterChoice(OnnxModel& model, const TrainRequest& request, Diags& diags)
      : model_(model), request_(request), diags_(diags) {}

  /// Computes an exporter's copies of a parameter from it, unless the schedule names them.
  void tie_copies(TrainingWriter& step);
  /// The chosen parameters in the order of the model. Nothing after reporting.
  std::optional<std::vector<const OnnxTensor*>> choose(const std::string& loss);

  /// True if an entry matches the tensor; `used` records the entries that match.
  static bool matches(const std::vector<ParameterMatch>& list, const OnnxTensor& tensor,
                      std::unordered_set<size_t>& used);
  /// Reports entries that match nothing.
  bool check_used(const std::vector<ParameterMatch>& list, const std::unordered_set<size_t>& used) const;

 private:
  bool is_named(const std::string& name) const;
  bool takes_default() const;
  void find(const std::string& loss);
  bool is_chosen(const OnnxTensor& tensor, std::unordered_set<size_t>& used) const;
  bool all_have_gradients();
  bool all_are_real(const std::vector<const OnnxTensor*>& chosen);
  void warn_of_constants() const;
  void warn_of_computed(const std::vector<const OnnxTensor*>& chosen) const;

  OnnxModel& model_;
  const TrainRequest& request_;
  Diags& diags_;
  std::string loss_;
  ParameterTensors found_;
  std::vector<TiedCopy> ties_;
};

}  // namespace weftc
