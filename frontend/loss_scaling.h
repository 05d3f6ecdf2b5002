// What keeps small derivatives where products round to 16 bits with 5 of exponent: they are those of a multiple of the
// loss. Where one is not finite, the step is skipped and the next multiple is half as large; after many good steps it
// is twice as large (torch.amp.GradScaler).
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

/// The multiple of the loss whose derivatives are taken.
std::string write_scaled_loss(TrainingWriter& step, const std::string& loss);
/// Of derivatives by it, those by the loss, under these names with kUnscaled behind; whether all are finite; the next
/// scale; the figures.
constexpr const char* kUnscaled = ".unscaled";
void write_unscaled(TrainingWriter& step, const std::vector<std::string>& gradients);
/// `next` of a state is what the step computes if it is not skipped: the name to compute it under.
std::string write_unless_skipped(TrainingWriter& step, const std::string& state, const std::string& next);

}  // namespace weftc
