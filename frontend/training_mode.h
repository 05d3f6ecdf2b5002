// What `mode: train` makes of the nodes whose forms for training and for inference differ.
//
//   y = BatchNormalization(x, scale, bias, mean, variance)
//   d = Dropout(y, ratio)
//   ->
//   y, mean.next, variance.next = BatchNormalization <training_mode = 1> (x, scale, bias, mean, variance)
//   d.drawn = Dropout <training_mode = 1> (y, ratio)
//   d = Where (train.evaluates, y, d.drawn)
//
// An evaluation is told by an input: it normalizes by the running statistics, as the operand more of each
// BatchNormalization says, and drops nothing.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "frontend/onnx_model.h"
#include "ir/schedule.h"

namespace weftc {

/// The input that says whether an invocation is an evaluation, where the model has a node to which it matters.
inline constexpr const char* kEvaluates = "train.evaluates";

/// Initialisers that are means over the batches of all steps, each with the name of its value behind a step.
using RunningStatistics = std::map<std::string, std::string>;

/// Puts the nodes of a model whose functions are inlined into the form for training, unless the request is for `eval`.
/// Nothing after reporting.
std::optional<RunningStatistics> put_into_training_form(OnnxModel& model, const TrainRequest& request, Diags& diags);

}  // namespace weftc
