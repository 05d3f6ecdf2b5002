// Checks that the transport between ranks supports a plan.
#pragma once
#include "ir/base/diag.h"
#include "ir/plan.h"

namespace weftc {

/// Reports steps whose kernels access the memory of other ranks, which is impossible over MPI. False if there are any.
bool check_mpi_plan(const Plan& plan, Diags& diags);

}  // namespace weftc
