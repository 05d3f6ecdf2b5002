// Evaluates an op whose operands are constants, on one rank.
#pragma once
#include "ir/module.h"
#include "ir/tensor.h"

namespace weftc {

/// The op's results follow from its operands by evaluation, and have known extents.
bool is_evaluated(const Graph& graph, OpId id);
/// All operands are Constants (Shape and Size ask only for a static type) and the op computes from nothing else.
bool is_foldable(const Module& module, const Graph& graph, OpId id);
/// Makes floats of 16-bit ones, as the Cast of a weight that a model stores so: no number changes.
bool widens_to_float(const Graph& graph, const Op& op);
/// Replaces the op by Constants that keep its results' names. The op must be foldable and typed.
void fold_op(Module& module, Graph& graph, OpId id);
/// The same with given results.
void replace_by_constants(Module& module, Graph& graph, OpId id, const std::vector<Tensor>& results);

}  // namespace weftc
