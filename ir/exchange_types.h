// Describes what a collective does to the memory of its ranks, as two layouts of one value. Collectives that the
// compiler inserts and those in a model (L10) are both described so.
//
// In a model, each rank has a tensor of its own, and a collective joins or cuts them along a dimension. The same bytes
// are slices of one larger tensor: AllGather of f32[2, 8] [tp: V] along dimension 0 on four ranks is the all-gather of
// f32[8, 8] [tp: S(0,2)].
#pragma once
#include "ir/graph.h"

namespace weftc {

struct ExchangeTypes {
  TensorType from, to;
};

/// True if ranks along the op's axes exchange data: every collective except the local slice.
bool is_exchange(const Op& op);
/// The mesh axes over which a collective runs.
std::vector<int> axes_of(const Op& op);
/// The axes of the first exchange in a kernel's body; empty without an exchange.
std::vector<int> exchange_axes(const Graph& body);
/// True if the op joins or cuts the ranks' own tensors. Such a collective comes from a model, and its operand and
/// result differ in shape or in elements.
bool joins_tensors(const Op& op);
/// Broadcast and Reduce: one rank of each group sends or receives.
bool has_root(OpKind kind);
/// The types between which memory is exchanged, for operand and result types on `mesh`. For a model's op, equal copies
/// (R) on its axes are treated as copies that may differ (V).
ExchangeTypes exchange_types(const Op& op, const TensorType& operand, const TensorType& result, const Mesh& mesh);
/// Whether the exchange uses strides that depend on run-time lengths. Dimensions left of all cut or joined ones do not
/// count: they are rows of one block each, however many there are.
bool strides_over_lengths(OpKind kind, const TensorType& from, const TensorType& to, const std::vector<int>& axes);
/// Number of ranks in a group: the product of the sizes of the op's axes; 1 for an op without axes.
int group_size(const Op& op, const Mesh& mesh);

}  // namespace weftc
