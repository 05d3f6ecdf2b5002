// Products and pointwise ops that read rows joined from several dimensions by a Reshape work on these dimensions again.
#pragma once
#include "passes/layout/layout_requests.h"

namespace weftc {

/// Where the schedule slices a dimension of run-time length: products with matrices and pointwise ops on [batch * seq,
/// n] become ones on [batch, seq, n], so that slices of the batch pass them. Results that have requests of their own
/// stay.
void split_rows(Module& module, const LayoutRequests& requests);

}  // namespace weftc
