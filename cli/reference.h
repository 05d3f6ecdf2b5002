// Expected results of a program without known data: seeded inputs, and the results of the reference evaluation on them.
#pragma once
#include "cli/comparison.h"
#include "cli/compile.h"
#include "cli/options.h"

namespace weftc {

/// Seeded inputs of a compiled graph, and the outputs of the model's graph on one rank, before layouts and without
/// simplifications. If ranks have inputs of their own, outputs are those of the compiled graph. Reports if the
/// evaluation fails.
KnownData reference_data(const Compilation& compilation, const Options& options, Diags& diags);

/// The tensors of `data` in the order of the graph's inputs.
std::vector<Tensor> inputs_in_order(const Module& module, const KnownData& data);

}  // namespace weftc
