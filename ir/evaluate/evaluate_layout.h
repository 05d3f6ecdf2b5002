// The meaning of layouts (L3): local tensors of a global one, the global tensor of local ones, and the move between two
// layouts. Every collective, scatter, assembly and both ends of a Chunk are one gather, by the digits of source and
// target:
//
//   [tp: S(0,2)] to [tp: S(1,4)] of f32[4, 8] on 2 ranks (an all-to-all): target element (i, j) of rank r comes from
//   rank i / 2, position (i % 2, j + 4 * r), since rank q holds rows 2 * q to 2 * q + 1
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/op_kind.h"
#include "ir/tensor.h"

namespace weftc {

/// One local tensor for each rank of a value's place, in the place's order.
using Locals = std::vector<Tensor>;

/// The shape of a value as one tensor: copies that vary (V) are stacked along a leading dim, in the order of their
/// ranks.
Dims stacked_dims(const TensorType& type, const Mesh& mesh);
/// The local tensors of a global one, with layout `type` on `mesh`. P holds the value at coordinate 0 and the identity
/// elsewhere. Copies that vary (V) are stacked along a leading dim (stacked_dims), which is dropped. Dims of run-time
/// length take their size from `global`.
Locals scatter(const Tensor& global, const TensorType& type, const Mesh& mesh);
/// The global tensor (L3): S puts elements at their indices, R demands equal copies, P reduces, V stacks. On failure
/// returns nothing, and `why` says what differs.
std::optional<Tensor> assemble(const Locals& locals, const TensorType& type, const Mesh& mesh, std::string& why);

/// Called with each value after it is computed.
using Observer = std::function<void(const Graph&, ValueId, const Locals&)>;

/// Converts the local tensors of layout `from` to those of `to` (every reshard of L7). Axes whose states differ take
/// part. V -> R reduces with `varying`. Reductions go in rank order and give the same bits on all ranks.
Locals reshard(const Locals& locals, const TensorType& from, const TensorType& to, const Mesh& mesh,
               ReduceOp varying = ReduceOp::Sum);
/// Equal dtype, dims and elements; NaN equals NaN.
bool same_elements(const Tensor& a, const Tensor& b);
/// Fills with the identity of `op`: for max and min, infinities or the extremes of an integer type.
void fill_identity(Tensor& tensor, ReduceOp op);
/// Element `i` of `into` becomes op(into[i], from[k]).
void accumulate(Tensor& into, int64_t i, const Tensor& from, int64_t k, ReduceOp op);

/// Reshards to the ranks `targets` of a mesh that may have time axes. `sources` has one tensor for each rank of the
/// mesh. A tensor that is not read is null: it belongs to another point of time, and the layouts agree on time.
Locals reshard_some(const std::vector<const Tensor*>& sources, const TensorType& from, const TensorType& to,
                    const Mesh& mesh, const std::vector<int>& targets, ReduceOp varying);

/// A Broadcast or Reduce over `axes`: `root` is the position of one rank in each group.
struct Rooted {
  OpKind kind;
  std::vector<int64_t> axes;
  int root;
  ReduceOp reduce;
};
/// Local tensors after the exchange, for all ranks of the mesh with a tensor in `sources` (null: it belongs to another
/// point of time).
Locals exchange_rooted(const std::vector<const Tensor*>& sources, const TensorType& from, const Rooted& rooted,
                       const Mesh& mesh);

}  // namespace weftc
