// The `shard` entries of a schedule, bound to the values of a module.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "ir/module.h"
#include "ir/schedule.h"
#include "passes/select.h"

namespace weftc {

/// The layout that one entry asks for.
struct LayoutRequest {
  const std::vector<AxisRequest>* axes;
  std::string value;  // for messages
};

/// The requests of one graph, and of the regions inside.
struct LayoutRequests {
  std::map<ValueId, LayoutRequest> results;  // of values
  std::map<ValueId, LayoutRequest> uses;     // of the values that readers get
  /// By node: the dims of its final result, and the layout to which a P made inside it is reduced.
  std::map<OriginId, std::pair<Dims, LayoutRequest>> nodes;
  std::map<OpId, std::vector<LayoutRequests>> regions;
};
/// The values that selectors of `shard` mean in the top graph, for a caller that binds the same entries many times.
struct KnownSelections {
  const SelectableNames& names;  // of the module
  std::map<std::string, std::vector<ValueId>> values = {};
};
/// Resolves the selectors of `shard` in all graphs of the module. Reports values that are asked for twice and entries
/// that match nowhere. Reads and extends `known`, if it is given.
LayoutRequests bind_requests(const Module& module, const Schedule& schedule, Diags& diags,
                             KnownSelections* known = nullptr);

/// The copies of an input or a constant that other places load.
std::vector<ValueId> copies_of(const Graph& graph, ValueId value);

/// `arriving` changed to meet the request. Axes that it does not name stay (P becomes R); new slices lie inside
/// existing ones (L2). Nothing after reporting.
std::optional<Layout> requested_layout(const LayoutRequest& request, const TensorType& arriving, const Mesh& mesh,
                                       Diags& diags);

}  // namespace weftc
