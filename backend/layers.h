// Layers that repeat, as a loop. A model of 48 layers has each step 48 times, with other weights and other names: the
// text has it once.
//
//   for (int layer = 1; layer < 48; ++layer) {
//     r.step(layer, {compute, "h.{layer}.mlp.c_fc", "MatMul h.{layer}.mlp.c_fc"}, [&] {
//       h_mlp_c_fc(r.team(), r[h_ln_2], r[h_mlp_c_fc_weight[layer]], r[h_mlp_c_fc_bias[layer]], r[h_mlp_act]);
//     });
//   }
//
// A loop is found in the text: steps are printed with numbers in place of the names of what they touch, and a run of
// equal texts that comes back is a layer, whatever kinds of steps it has. What stands at one place of the text in all
// layers then has one name: buffers that lie at the same place are declared once; weights that lie at equal distances
// are LayerWeights; of anything else there is a table.
#pragma once
#include <map>
#include <set>
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

/// How the text of a program has its layers. Origins named as all layers are added to the plan, which is that of
/// `kernels`. None where `plan` wants none.
ProgramLayers find_layers(Plan& plan, const ProgramNames& names, const Program& program,
                          const std::vector<KernelText>& kernels);

}  // namespace weftc
