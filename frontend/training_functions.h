// The losses, optimizers and learning rates that `train:` provides by name, as functions in ONNX's text syntax. A
// user's own functions are written in the same way.
//
//   loss        (values of the model ...) => (loss)                                      the last is a scalar
//   optimizer   (parameter, gradient, states ..., step, rate) => (parameter, states ...)  states begin as zeros
//   rate        (step) => (rate)                                                         the first step is 1
//
// A schedule may set attributes; it must set those without a default.
#pragma once
#include <string>

namespace weftc {

/// One text that contains all of them.
std::string training_functions();

}  // namespace weftc
