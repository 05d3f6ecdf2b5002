// The losses, optimizers and learning rates that `train:` knows by name, as functions in ONNX's text syntax: a user's
// own are written the same way.
//
//   loss        (values of the model ...) => (loss)                                      the last is a scalar
//   optimizer   (parameter, gradient, states ..., step, rate) => (parameter, states ...)  states begin as zeros
//   rate        (step) => (rate)                                                         the first step is 1
//
// Attributes are what a schedule may set; those without a default it must.
#pragma once
#include <string>

namespace weftc {

/// One text that holds all of them.
std::string training_functions();

}  // namespace weftc
