// Reference evaluation of a graph of any form on N virtual ranks inside one process.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/tensor.h"

namespace weftc {

/// One local tensor for each rank of a value's place, in the place's order.
using Locals = std::vector<Tensor>;

/// The shape of a value as one tensor: copies that vary (V) stand along a leading dim, in the order of their ranks.
Dims stacked_dims(const TensorType& type, const Mesh& mesh);
/// The local tensors of a global one. `type` says how it is laid out on `mesh`; P holds the value at coordinate 0 and
/// the identity elsewhere; copies that vary (V) stand along a leading dim (stacked_dims), which is dropped. Dims of
/// run-time length have that of `global`.
Locals scatter(const Tensor& global, const TensorType& type, const Mesh& mesh);
/// The global tensor (L3): S puts elements at their indices, R demands equal coordinates, P reduces, V stacks. On
/// failure nothing, and `why` says what differs.
std::optional<Tensor> assemble(const Locals& locals, const TensorType& type, const Mesh& mesh, std::string& why);

struct EvalOptions {
  int64_t invocation = 0;  // of the first, for evaluate_invocations
  /// Called with each top-level value of the graph after it was computed.
  std::function<void(const Graph&, ValueId, const Locals&)> observe;
};
struct EvalResult {
  std::vector<Tensor> outputs;  // global, in the order of graph.outputs()
  std::string error;            // "" when well: which value could not be assembled, and why
};
/// Runs the module's graph on all ranks of all places. `inputs`: global tensors, one for each input of the model: in
/// the order of graph.inputs(), or by the number in attribute `port`, which copies of an input in several places share.
EvalResult evaluate(const Module& module, const std::vector<Tensor>& inputs, const EvalOptions& options = {});
/// One evaluation after another, feeding the states: of inputs that are states only those of the first invocation are
/// read (empty dims with extent 0 where the length grows from nothing). One result an invocation, up to the first
/// error.
std::vector<EvalResult> evaluate_invocations(const Module& module, const std::vector<std::vector<Tensor>>& inputs,
                                             const EvalOptions& options = {});

/// The local tensors of the layout `to`, made from those of `from` (every reshard of L7: what collectives do): axes
/// whose states differ take part. V -> R reduces with `varying`. Reductions go in rank order, the same bits on all
/// ranks.
Locals reshard(const Locals& locals, const TensorType& from, const TensorType& to, const Mesh& mesh,
               ReduceOp varying = ReduceOp::Sum);
/// Equal dtype, dims and elements; NaN equals NaN.
bool same_elements(const Tensor& a, const Tensor& b);
/// What P(op) holds where there is nothing to add: infinities or the extremes of an integer type for max and min.
void fill_identity(Tensor& tensor, ReduceOp op);
/// Element `i` of `into` becomes op(into[i], from[k]).
void accumulate(Tensor& into, int64_t i, const Tensor& from, int64_t k, ReduceOp op);

}  // namespace weftc
