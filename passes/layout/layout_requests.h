// The `shard` entries of a schedule, bound to the values of a module.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "ir/module.h"
#include "ir/schedule.h"
#include "passes/select.h"

namespace weftc {

/// What one entry asks of a layout.
struct LayoutRequest {
  const std::vector<AxisRequest>* axes;
  std::string value;  // for messages
};

/// The requests of one graph, and of the regions inside.
struct LayoutRequests {
  std::map<ValueId, LayoutRequest> results;  // of values
  std::map<ValueId, LayoutRequest> uses;     // of what readers of a value get
  /// By node: the dims of its final result and what a P made inside it is reduced to.
  std::map<OriginId, std::pair<Dims, LayoutRequest>> nodes;
  std::map<OpId, std::vector<LayoutRequests>> regions;
};
/// What selectors of `shard` mean in the top graph, for who binds the same entries time and again.
struct KnownSelections {
  const SelectableNames& names;  // of the module
  std::map<std::string, std::vector<ValueId>> values = {};
};
/// Resolves the selectors of `shard` in all graphs of the module. Reports values that are asked for twice and entries
/// that match nowhere. `known`, if there is one, is read and added to.
LayoutRequests bind_requests(const Module& module, const Schedule& schedule, Diags& diags,
                             KnownSelections* known = nullptr);

/// The copies of an input or a constant that other places load.
std::vector<ValueId> copies_of(const Graph& graph, ValueId value);

/// `arriving` with the request met: axes it does not name stay (P becomes R), slices it makes lie inside those already
/// there (L2). Nothing after reporting.
std::optional<Layout> requested_layout(const LayoutRequest& request, const TensorType& arriving, const Mesh& mesh,
                                       Diags& diags);

}  // namespace weftc
