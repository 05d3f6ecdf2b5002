// Types of all values of a graph (type_inference.cpp says how), under what is known of its run-time lengths before.
#pragma once
#include <map>
#include <string>

#include "ir/module.h"
#include "ir/shape_values.h"

namespace weftc {

/// The smallest values of named lengths, where they are not 0; that of "" is for names that are not there.
using Least = std::map<std::string, int64_t>;

/// What an inference tells beside the types.
struct InferredTypes {
  ShapeValues limits;  // what the states say of lengths
  Least demands;       // from which lengths on quotients in the model's shape arithmetic mean something
};

/// Types the module's graph. `limits`: of lengths that states bound; `least`: what inputs have at least.
InferredTypes infer_graph(Module& module, Diags& diags, const ShapeValues& limits, const Least& least);

}  // namespace weftc
