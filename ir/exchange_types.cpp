// Turns a collective's operand and result types into two layouts of one value. The collective moves elements between
// these layouts.
#include "ir/exchange_types.h"

#include <algorithm>

#include "ir/op_def.h"

namespace weftc {

namespace {

using Kind = AxisState::Kind;

/// The ranks' tensors as slices of one tensor that is larger in `dim`. Slices are in the order of the ranks, the first
/// axis outermost.
TensorType joined(TensorType type, int dim, const std::vector<int64_t>& axes, const Mesh& mesh) {
  Extent& extent = type.shape[static_cast<size_t>(dim)];
  for (size_t i = axes.size(); i-- > 0;) {
    const int axis = static_cast<int>(axes[i]);
    type.layout.set(axis, AxisState::sliced(dim, extent.bound));
    extent.bound *= mesh[static_cast<size_t>(axis)].size;
  }
  return type;
}

/// The tensor's parts along `dim`, one for each rank.
TensorType parted(TensorType type, int dim, const std::vector<int64_t>& axes, const Mesh& mesh) {
  int64_t block = type.shape[static_cast<size_t>(dim)].bound;
  for (const int64_t axis : axes) {
    block /= mesh[static_cast<size_t>(axis)].size;
    type.layout.set(static_cast<int>(axis), AxisState::sliced(dim, block));
  }
  return type;
}

/// The type with unrelated copies (V) on the op's axes.
TensorType varying(TensorType type, const std::vector<int64_t>& axes) {
  for (const int64_t axis : axes) type.layout.set(static_cast<int>(axis), AxisState::varying());
  return type;
}

/// All-to-all cuts the tensor along one dimension and joins the pieces along another. If both are the same dimension, a
/// new outer dimension over the ranks is added for the cut.
ExchangeTypes all_to_all_types(const Op& op, TensorType operand, const Mesh& mesh) {
  const std::vector<int64_t>& axes = op.ints("axes");
  int split = static_cast<int>(op.integer("split_axis"));
  const int concat = static_cast<int>(op.integer("concat_axis"));
  if (split == concat) operand.shape.insert(operand.shape.begin() + split++, Extent{1, {}});
  TensorType from = joined(std::move(operand), concat, axes, mesh);
  TensorType to = parted(from, split, axes, mesh);
  return {std::move(from), std::move(to)};
}

}  // namespace

bool is_exchange(const Op& op) { return category(op) == Category::Collective && op.kind != OpKind::ShardSlice; }

std::vector<int> axes_of(const Op& op) {
  const std::vector<int64_t>& axes = op.ints("axes");
  return {axes.begin(), axes.end()};
}

std::vector<int> exchange_axes(const Graph& body) {
  for (OpId id = body.first(); id; id = body.next(id))
    if (is_exchange(body.op(id))) return axes_of(body.op(id));
  return {};
}

bool joins_tensors(const Op& op) { return op.has("axis") || op.has("split_axis"); }

bool has_root(OpKind kind) { return kind == OpKind::Broadcast || kind == OpKind::Reduce; }

bool strides_over_lengths(OpKind kind, const TensorType& from, const TensorType& to, const std::vector<int>& axes) {
  if (kind == OpKind::AllReduce || has_root(kind)) return false;
  int first = from.ndim();
  for (const TensorType* type : {&from, &to})
    for (int axis : axes)
      if (const AxisState state = type->layout[axis]; state.is(AxisState::Kind::S)) first = std::min(first, state.dim);
  return std::any_of(from.shape.begin() + first, from.shape.end(),
                     [](const Extent& extent) { return extent.is_run_time(); });
}

int group_size(const Op& op, const Mesh& mesh) {
  int size = 1;
  if (op.has("axes"))
    for (const int64_t axis : op.ints("axes")) size *= mesh[static_cast<size_t>(axis)].size;
  return size;
}

ExchangeTypes exchange_types(const Op& op, const TensorType& operand, const TensorType& result, const Mesh& mesh) {
  const std::vector<int64_t>& axes = op.ints("axes");
  const int dim = static_cast<int>(op.integer_or("axis", 0));
  if (op.has("split_axis")) return all_to_all_types(op, operand, mesh);
  if (op.kind == OpKind::AllGather && op.has("axis")) return {joined(operand, dim, axes, mesh), result};
  if (op.kind == OpKind::ReduceScatter && op.has("axis"))
    return {varying(operand, axes), parted(operand, dim, axes, mesh)};
  bool copies = has_root(op.kind) || op.kind == OpKind::AllReduce;
  for (const int64_t axis : axes) {
    const AxisState state = operand.layout[static_cast<int>(axis)];
    copies = copies && (state.is(Kind::R) || state.is(Kind::V));
  }
  return {copies ? varying(operand, axes) : operand, result};
}

}  // namespace weftc
