// What the text of a program has as a loop over layers (layers.h finds it, steps.h writes it).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "backend/program_names.h"

namespace weftc {

/// Steps first .. first + period of a block and those of the layers behind them.
struct LayerLoop {
  size_t first = 0, period = 0;
  int begin = 0, count = 0;  // the number of the first layer, and how many there are
  std::vector<Step> steps;   // of the first layer, named as all: "h.{layer}.ln_1"
  ProgramNames names;        // inside the loop

  size_t end() const { return first + period * static_cast<size_t>(count); }
};

/// The blocks of a program with their loops, and the names that its declarations have.
struct ProgramLayers {
  ProgramNames names;
  std::map<const Block*, std::vector<LayerLoop>> loops;  // in order
  std::vector<std::string> tables;                       // lines: what has no better form, by layer
};

}  // namespace weftc
