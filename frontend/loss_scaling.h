// Loss scaling preserves small derivatives if products round to 16 bits with 5 of exponent: derivatives are taken of a
// multiple of the loss. If one is not finite, the step is skipped and the multiple is halved. After many good steps it
// is doubled (torch.amp.GradScaler).
//
//   w.grad = Gradient (loss)     ->   w.grad = Gradient (loss * scale)     w.grad.unscaled = w.grad / scale
//   w.next = sgd (w, w.grad)          w.next = are_finite ? sgd (w, w.grad.unscaled) : w
#pragma once
#include <string>
#include <vector>

#include "frontend/training_writer.h"

namespace weftc {

/// Figures of each step.
constexpr const char *kLossScale = "loss_scale", *kSkipped = "skipped";

/// Writes the multiple of the loss that is differentiated, and returns its name.
std::string write_scaled_loss(TrainingWriter& step, const std::string& loss);
/// Suffix of unscaled derivatives. write_unscaled computes them from the scaled ones; it also writes whether all are
/// finite, the next scale and the figures.
constexpr const char* kUnscaled = ".unscaled";
void write_unscaled(TrainingWriter& step, const std::vector<std::string>& gradients);
/// Keeps a state's old value if the step is skipped. Returns the name under which the step must compute its next value.
std::string write_unless_skipped(TrainingWriter& step, const std::string& state, const std::string& next);

}  // namespace weftc
