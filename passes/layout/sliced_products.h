// Derives the layouts of a product's operands from the layout that is wanted of its result. Warns of the cost where a
// Reshape cannot keep the slices of a product.
#pragma once
#include <map>

#include "ir/op_def.h"
#include "passes/layout/layout_requests.h"
#include "passes/layout/layout_rules.h"

namespace weftc {

/// The results of products and convolutions whose layout is requested, directly or through pointwise ops with constants
/// (a bias, an activation). A product whose result has other readers is not among them.
std::map<ValueId, LayoutRequest> requested_products(const Graph& graph, const LayoutRequests& requests);

/// `settled` with operands sliced such that the result arrives in layout `wanted`. It applies to axes where the result
/// would be replicated, and where it suffices to slice constants and replicated operands.
OpLayouts slice_operands(const OpView& op, const Mesh& mesh, const std::vector<Layout>& arriving, OpLayouts settled,
                         const Layout& wanted);

/// Warns if the op is a Reshape that splits a sliced dim into parts that the ranks do not divide, such as attention
/// heads: the slices are gathered.
void warn_of_gathered_parts(const OpView& op, const Mesh& mesh, const std::vector<Layout>& arriving,
                            const OpLayouts& settled, const Loc& loc, Diags& diags);

}  // namespace weftc
