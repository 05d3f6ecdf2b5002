// What a `shard` entry on the result of a product means for the product's constants, and what a Reshape that cannot
// keep the slices of a product costs.
#pragma once
#include <map>

#include "ir/op_def.h"
#include "passes/layout/layout_requests.h"
#include "passes/layout/layout_rules.h"

namespace weftc {

/// The results of products and convolutions whose layout is asked for: directly, or as that of what pointwise ops with
/// constants (a bias, an activation) make of it. A product whose result is read elsewhere too is not among them.
std::map<ValueId, LayoutRequest> requested_products(const Graph& graph, const LayoutRequests& requests);

/// `settled` with constant operands sliced such that the result arrives in the layout that is asked for, on each axis
/// where it would be replicated and slices of constants suffice.
OpLayouts slice_constants(const OpView& op, const Mesh& mesh, const std::vector<Layout>& arriving, OpLayouts settled,
                          const LayoutRequest& request);

/// Warns if the op is a Reshape that splits a sliced dim into parts of which ranks would not have whole ones, so that
/// the slices are gathered: attention heads that the ranks do not divide.
void warn_of_gathered_parts(const OpView& op, const Mesh& mesh, const std::vector<Layout>& arriving,
                            const OpLayouts& settled, const Loc& loc, Diags& diags);

}  // namespace weftc
