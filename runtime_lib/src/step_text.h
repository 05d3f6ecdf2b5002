// The texts of a step. In a loop over layers, the number of one layer is put into the shared text.
#pragma once
#include <string>

#include "weft/program.h"

namespace weft {

/// "h.{layer}.ln_1" -> "h.3.ln_1", "val_{4 * layer + 2}" -> "val_14"; the unchanged text if `layer` is kNoLayer.
std::string in_layer(const char* text, int layer);

inline std::string name_of(const Step& step) { return in_layer(step.name, step.layer); }
inline std::string nodes_of(const Step& step) { return in_layer(step.nodes, step.layer); }
inline std::string transform_of(const Step& step) { return in_layer(step.transform, step.layer); }

}  // namespace weft
