// What `train:` of a schedule makes of a model: a step that computes the loss, its derivative by every parameter, and
// the parameters that an optimizer makes of these.
//
//   scores = MatMul(x, w)          ->  scores = MatMul(x, w)                                  w is an input now
//                                      loss = cross_entropy(scores, labels)
//                                      w.grad = Gradient <xs = ["w"], y = "loss"> (w)
//                                      w.next, w.m.next, w.v.next = adamw(w, w.grad, w.m, w.v, step, rate)
#pragma once
#include "frontend/onnx_model.h"
#include "ir/schedule.h"
#include "ir/training.h"

namespace weftc {

/// An input that is the output `next` of the step before; at first `first`, or zeros where that is null.
struct TrainedState {
  std::string name, next;
  const OnnxTensor* first = nullptr;  // in the model's `parameters`
  std::string of = {};                // the parameter that the optimizer keeps it for
};

struct WrittenStep {
  Training training;
  std::vector<TrainedState> states;
};

/// Writes the step into a model without calls of functions. Its outputs are then the loss, what else is asked for, and
/// the next value of each state; functions of the step are called, not yet inlined. Nothing after reporting.
std::optional<WrittenStep> write_training_step(OnnxModel& model, const TrainRequest& request, Diags& diags);

}  // namespace weftc
