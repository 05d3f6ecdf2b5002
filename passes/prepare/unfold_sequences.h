// What infer-types does about values that are no tensors (ir/unfolding.h), and about loops that have to be written out.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "ir/unfolding.h"

namespace weftc {

/// A graph whose types are being inferred. `infer` types the ops from `first` up to `end`, which is left out.
struct TypedGraph {
  Module& module;
  Graph& graph;
  UnfoldedValues& values;
  Diags& diags;
  std::function<void(OpId first, OpId end)> infer;
};

/// Types the ops from `first` up to `end`. Typing replaces ops by others, and then `values` are the others' results.
/// False after reporting.
bool type_values(const TypedGraph& in, OpId first, OpId end, std::vector<ValueId>& values);

/// True if an operand is no tensor.
bool reads_unfolded(const Graph& graph, const UnfoldedValues& values, OpId id);
/// Notes what the results of an op on sequences or optionals stand for; results that are tensors are replaced. False
/// after reporting.
bool unfold_op(const TypedGraph& in, OpId id);

/// Gives the regions of an If or Loop the tensors of captured sequences, from which they make these sequences anew, and
/// copies of captured constants, of which shapes inside may depend. False after reporting.
bool bring_in_captures(const TypedGraph& in, OpId id);
/// The outputs of a graph become those tensors that they stand for, named y.0, y.1 ...; what each output stood for.
std::vector<Unfolded> unfold_outputs(Graph& graph, const UnfoldedValues& values);
/// Adds an If that returns tensors in place of one whose branches return sequences; it has no types yet. Nothing after
/// reporting.
std::optional<OpId> unfold_results(const TypedGraph& in, OpId id, const std::vector<std::vector<Unfolded>>& branches);

}  // namespace weftc
