// Repeated layers as a loop. A model of 48 layers has each step 48 times, with other weights and other names; the text
// has it once.
//
//   for (int layer = 1; layer < 48; ++layer) {
//     r.step(layer, {compute, "h.{layer}.mlp.c_fc", "MatMul h.{layer}.mlp.c_fc"}, [&] {
//       h_mlp_c_fc(r.team(), r[h_ln_2], r[h_mlp_c_fc_weight[layer]], r[h_mlp_c_fc_bias[layer]], r[h_mlp_act]);
//     });
//   }
//
// Loops are found in the text. Steps are printed with numbers in place of the names of their objects, and a repeated
// run of equal texts is a layer, whatever kinds of steps it has. Objects at one place of the text in all layers then
// get one name. Buffers at the same position are declared once; weights at equal distances are LayerWeights; all others
// are in a table.
#pragma once
#include <vector>

#include "backend/layer_loop.h"

namespace weftc {

/// The loops over layers in the text of a program. Origins named for all layers are added to the plan of `kernels`.
/// Empty if `plan` disables them.
ProgramLayers find_layers(Plan& plan, const ProgramNames& names, const Program& program,
                          const std::vector<KernelText>& kernels);

}  // namespace weftc
