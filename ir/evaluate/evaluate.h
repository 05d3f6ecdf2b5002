// Reference evaluation of a graph of any form on N virtual ranks inside one process.
#pragma once
#include <string>
#include <vector>

#include "ir/evaluate/evaluate_layout.h"

namespace weftc {

struct EvalOptions {
  int64_t invocation = 0;  // of the first, for evaluate_invocations
  /// Called with each top-level value of the graph after it was computed.
  Observer observe;
};
struct EvalResult {
  std::vector<Tensor> outputs;  // global, in the order of graph.outputs()
  std::string error;            // "" when well: which value could not be assembled, and why
};
/// Runs the module's graph on all ranks of all places. `inputs`: global tensors, one for each input of the model: in
/// the order of graph.inputs(), or by the number of their port, which copies of an input in several places share.
EvalResult evaluate(const Module& module, const std::vector<Tensor>& inputs, const EvalOptions& options = {});
/// One evaluation after another, feeding the states: of inputs that are states only those of the first invocation are
/// read (empty dims with extent 0 where the length grows from nothing). One result an invocation, up to the first
/// error.
std::vector<EvalResult> evaluate_invocations(const Module& module, const std::vector<std::vector<Tensor>>& inputs,
                                             const EvalOptions& options = {});

}  // namespace weftc
