// Declares the passes: one line each. pipeline.cpp gives their order and what holds after each.
#pragma once
#include "passes/pass.h"

namespace weftc {

void infer_types(Module& module, const Env& env);
void bind_states(Module& module, const Env& env);
void bind_generation(Module& module, const Env& env);
void fold_constants(Module& module, const Env& env);
void differentiate(Module& module, const Env& env);
void recompute(Module& module, const Env& env);
void simplify(Module& module, const Env& env);
void narrow_weights(Module& module, const Env& env);
void decompose(Module& module, const Env& env);
void lower_precision(Module& module, const Env& env);
void relate_lengths(Module& module, const Env& env);
void assign_places(Module& module, const Env& env);
void bind_collectives(Module& module, const Env& env);
void apply_layouts(Module& module, const Env& env);
void fold_weights(Module& module, const Env& env);
void apply_transforms(Module& module, const Env& env);
void divide_late(Module& module, const Env& env);
void turn_products(Module& module, const Env& env);
void scatter_updates(Module& module, const Env& env);
void factor_gradients(Module& module, const Env& env);
void fuse_loops(Module& module, const Env& env);
void lay_in_memory(Module& module, const Env& env);
void fuse_regions(Module& module, const Env& env);

}  // namespace weftc
