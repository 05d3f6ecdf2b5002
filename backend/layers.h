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
#include <vector>

#include "backend/layer_loop.h"

namespace weftc {

/// How the text of a program has its layers. Origins named as all layers are added to the plan, which is that of
/// `kernels`. None where `plan` wants none.
ProgramLayers find_layers(Plan& plan, const ProgramNames& names, const Program& program,
                          const std::vector<KernelText>& kernels);

}  // namespace weftc
