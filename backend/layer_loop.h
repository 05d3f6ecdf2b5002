// A loop over layers in the text of a program (layers.h finds it, steps.h writes it).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "backend/program_names.h"

namespace weftc {

/// Steps first .. first + period of a block, and the same steps of later layers.
struct LayerLoop {
  size_t first = 0, period = 0;
  int begin = 0, count = 0;  // number of the first layer, and number of layers
  std::vector<Step> steps;   // of the first layer, with names for all: "h.{layer}.ln_1"
  ProgramNames names;        // inside the loop

  size_t end() const { return first + period * static_cast<size_t>(count); }
};

/// The blocks of a program with their loops, and the names in its declarations.
struct ProgramLayers {
  ProgramNames names;
  std::map<const Block*, std::vector<LayerLoop>> loops;  // in order
  std::vector<std::string> tables;                       // lines: tables by layer, for names without a simpler form
};

}  // namespace weftc
