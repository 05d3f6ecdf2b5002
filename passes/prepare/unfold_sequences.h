// How infer-types treats values that are no tensors (ir/unfolding.h), and loops that must be unrolled.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "ir/unfolding.h"

namespace weftc {

/// A graph whose types are being inferred. `infer` types the ops from `first` up to `end`, exclusive.
struct TypedGraph {
  Module& module;
  Graph& graph;
  UnfoldedValues& values;
  Diags& diags;
  std::function<void(OpId first, OpId end)> infer;
};

/// Types the ops from `first` up to `end`. Typing may replace ops; `values` then become the results of the new ops.
/// False after reporting.
bool type_values(const TypedGraph& in, OpId first, OpId end, std::vector<ValueId>& values);

/// True if an operand is no tensor.
bool reads_unfolded(const Graph& graph, const UnfoldedValues& values, OpId id);
/// Notes which tensors the results of an op on sequences or optionals stand for; replaces results that are tensors.
/// False after reporting.
bool unfold_op(const TypedGraph& in, OpId id);

/// Passes the tensors of captured sequences to the regions of an If or Loop, which make the sequences anew. Also copies
/// captured constants into them, because shapes inside may depend on these. False after reporting.
bool bring_in_captures(const TypedGraph& in, OpId id);
/// Replaces the outputs of a graph by the tensors that they stand for, named y.0, y.1 ...; returns the value of each
/// former output.
std::vector<Unfolded> unfold_outputs(Graph& graph, const UnfoldedValues& values);
/// Adds an If that returns tensors in place of one whose branches return sequences; it has no types yet. Nothing after
/// reporting.
std::optional<OpId> unfold_results(const TypedGraph& in, OpId id, const std::vector<std::vector<Unfolded>>& branches);

}  // namespace weftc
