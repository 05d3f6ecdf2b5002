// `mode: train` rewrites nodes whose forms for training and for inference differ.
//
//   y = BatchNormalization(x, scale, bias, mean, variance)
//   d = Dropout(y, ratio)
//   ->
//   y, mean.next, variance.next = BatchNormalization <training_mode = 1> (x, scale, bias, mean, variance)
//   d.drawn = Dropout <training_mode = 1> (y, ratio)
//   d = Where (train.evaluates, y, d.drawn)
//
// An input marks an evaluation. BatchNormalization then normalizes by the running statistics, selected by its
// additional operand, and Dropout drops nothing.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "frontend/onnx_model.h"
#include "ir/schedule.h"

namespace weftc {

/// The input that says whether an invocation is an evaluation, if the model has a node that depends on it.
inline constexpr const char* kEvaluates = "train.evaluates";

/// Initialisers that are means over the batches of all steps, each with the name of its value after a step.
using RunningStatistics = std::map<std::string, std::string>;

/// Converts the nodes of a model whose functions are inlined to the form for training, unless the schedule's `train:`
/// is for `eval`. Nothing after reporting.
std::optional<RunningStatistics> put_into_training_form(OnnxModel& model, const Schedule& schedule, Diags& diags);

}  // namespace weftc
