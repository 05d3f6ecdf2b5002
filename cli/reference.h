// What a program should compute where nobody says it: seeded inputs, and what the reference evaluation makes of them.
#pragma once
#include "cli/comparison.h"
#include "cli/compile.h"
#include "cli/options.h"

namespace weftc {

/// Seeded inputs of a compiled graph, and the outputs of the graph before layouts, as the model has it (no rule has
/// simplified it), on one rank; of the compiled graph where ranks have inputs of their own. Reports where the
/// evaluation fails.
KnownData reference_data(const Compilation& compilation, const Options& options, Diags& diags);

/// The tensors of `data` in the order of the graph's inputs.
std::vector<Tensor> inputs_in_order(const Module& module, const KnownData& data);

}  // namespace weftc
