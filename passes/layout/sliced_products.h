// What the layout that is wanted of a product's result means for the product's operands, and what a Reshape that cannot
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

/// `settled` with operands sliced such that the result arrives in layout `wanted`, on each axis where it would be
/// replicated and slices of constants, and of what all ranks have, suffice.
OpLayouts slice_operands(const OpView& op, const Mesh& mesh, const std::vector<Layout>& arriving, OpLayouts settled,
                         const Layout& wanted);

/// Warns if the op is a Reshape that splits a sliced dim into parts of which ranks would not have whole ones, so that
/// the slices are gathered: attention heads that the ranks do not divide.
void warn_of_gathered_parts(const OpView& op, const Mesh& mesh, const std::vector<Layout>& arriving,
                            const OpLayouts& settled, const Loc& loc, Diags& diags);

}  // namespace weftc
