// Reference evaluation of a graph in any form on N virtual ranks inside one process. It is the oracle of the compiler:
// slow, obvious, in double precision, and independent of kernels. Constants are folded by it, and `weft verify` and the
// tests of passes compare with it. evaluate_plan.h does the same for a Plan.
//
//   x global --scatter--> a tensor for each rank --ops one by one on every rank--> locals of y --assemble--> y global
#pragma once
#include <string>
#include <vector>

#include "ir/evaluate/evaluate_layout.h"

namespace weftc {

/// The invocation to run, and its observer.
struct EvalOptions {
  int64_t invocation = 0;  // of the first evaluation in evaluate_invocations
  /// Called with each top-level value of the graph after it was computed.
  Observer observe;
};
/// The results of one invocation, or the first error.
struct EvalResult {
  std::vector<Tensor> outputs;  // global, in the order of graph.outputs()
  std::string error;            // "" on success: else the value that could not be assembled, and why
};
/// Runs the module's graph on all ranks of all places. `inputs` has a global tensor for each input of the model, in the
/// order of graph.inputs(), or by the number of their port. Copies of an input in several places share a port.
EvalResult evaluate(const Module& module, const std::vector<Tensor>& inputs, const EvalOptions& options = {});
/// Runs one evaluation after another, feeding the states. Inputs that are states are read for the first invocation only
/// (empty dims with extent 0 if the length grows from nothing). Returns one result an invocation, up to the first
/// error.
std::vector<EvalResult> evaluate_invocations(const Module& module, const std::vector<std::vector<Tensor>>& inputs,
                                             const EvalOptions& options = {});

}  // namespace weftc
