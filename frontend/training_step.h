// `train:` of a schedule turns a model into a training step. It computes the loss, its derivative by every parameter,
// and the parameters that an optimizer makes of these.
//
//   scores = MatMul(x, w)          ->  scores = MatMul(x, w)                                  w is an input now
//                                      loss = cross_entropy(scores, labels)
//                                      w.grad = Gradient <xs = ["w"], y = "loss"> (w)
//                                      w.next, w.m.next, w.v.next = adamw(w, w.grad, w.m, w.v, step, rate)
#pragma once
#include "frontend/training_writer.h"
#include "ir/schedule.h"
#include "ir/training.h"

namespace weftc {

struct WrittenStep {
  Training training;
  std::vector<TrainedState> states;
};

/// Writes the step of the schedule's `train:` into a model without calls of functions. Its outputs are then the loss,
/// requested metrics, and the next value of each state. Functions of the step are called, not yet inlined.
/// `scales_loss`: small derivatives would be rounded to 0 (loss_scaling.h). Nothing after reporting.
std::optional<WrittenStep> write_training_step(OnnxModel& model, const Schedule& schedule, bool scales_loss,
                                               Diags& diags);

}  // namespace weftc
