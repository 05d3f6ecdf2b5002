// What a collective does to the memory of its ranks, as two layouts of one value: the common language of collectives
// that the compiler inserts and of those that a model brings (L10).
//
// To a model each rank has a tensor of its own, and a collective joins or cuts them along a dimension. The same bytes
// are slices of one larger tensor: AllGather of f32[2, 8] [tp: V] along dimension 0 on four ranks is the all-gather of
// f32[8, 8] [tp: S(0,2)].
#pragma once
#include "ir/graph.h"

namespace weftc {

struct ExchangeTypes {
  TensorType from, to;
};

/// True if the ranks of the op's axes give each other something: every collective but the local slice.
bool is_exchange(const Op& op);
/// The mesh axes that a collective joins.
std::vector<int> axes_of(const Op& op);
/// The axes of the first exchange in the body of a kernel; empty if there is none.
std::vector<int> exchange_axes(const Graph& body);
/// True if the op joins or cuts the ranks' own tensors: a collective of a model whose operand and result have different
/// shapes, or the same shape with other elements.
bool joins_tensors(const Op& op);
/// Broadcast, or Reduce: one rank of each group gives or gets.
bool has_root(OpKind kind);
/// The types between which memory is exchanged, for operand and result types on `mesh`. Equal copies (R) on the axes of
/// the op are taken as copies that may differ (V) where the op is a model's.
ExchangeTypes exchange_types(const Op& op, const TensorType& operand, const TensorType& result, const Mesh& mesh);
/// Whether the exchange takes elements apart by strides over dimensions of run-time length: those to the left of all
/// dimensions that are cut or joined are rows of one block each, however many there are.
bool strides_over_lengths(OpKind kind, const TensorType& from, const TensorType& to, const std::vector<int>& axes);
/// Ranks of one group: the product of the sizes of the op's axes; 1 of an op without any.
int group_size(const Op& op, const Mesh& mesh);

}  // namespace weftc
