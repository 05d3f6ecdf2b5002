// Products and pointwise ops on rows that a Reshape has made of several dimensions, given these dimensions back.
#pragma once
#include "passes/layout/layout_requests.h"

namespace weftc {

/// Where the schedule slices a dimension of run-time length: products with matrices and pointwise ops on [batch * seq,
/// n] become ones on [batch, seq, n], so that slices of the batch pass them. Results that have requests of their own
/// stay.
void split_rows(Module& module, const LayoutRequests& requests);

}  // namespace weftc
