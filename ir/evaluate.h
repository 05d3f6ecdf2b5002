// Reference evaluation of a graph of any form on N virtual ranks inside one process (DESIGN section 11).
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/tensor.h"

namespace weft {

/// One local tensor for each rank of a value's place, in the place's order.
using Locals = std::vector<Tensor>;

/// The local tensors of a global one. `type` says how it is laid out on `mesh`; P holds the value at coordinate 0 and the
/// identity elsewhere; V expects a leading dim of the axis' size, which is dropped. `dims` are the run-time lengths.
Locals scatter(const Tensor& global, const TensorType& type, const Mesh& mesh);
/// The global tensor (L3): S puts elements at their indices, R demands equal coordinates, P reduces, V stacks. On failure
/// nothing, and `why` says what differs.
std::optional<Tensor> assemble(const Locals& locals, const TensorType& type, const Mesh& mesh, std::string& why);

struct EvalOptions {
  int64_t invocation = 0;
  /// Called with each top-level value of the graph after it was computed.
  std::function<void(const Graph&, ValueId, const Locals&)> observe;
};
struct EvalResult {
  std::vector<Tensor> outputs;    // global, in the order of graph.outputs()
  std::string error;              // "" when well: which value could not be assembled, and why
};
/// Runs the module's graph on all ranks of all places. `inputs`: global tensors, in the order of graph.inputs().
EvalResult evaluate(const Module& module, const std::vector<Tensor>& inputs, const EvalOptions& options = {});

/// The local tensors of the layout `to`, made from those of `from` (every reshard of L7: what collectives do).
/// `axes`: which mesh axes take part.
Locals reshard(const Locals& locals, const TensorType& from, const TensorType& to, const Mesh& mesh);

}  // namespace weft
