// What the way in which ranks talk cannot carry.
#pragma once
#include "ir/base/diag.h"
#include "ir/plan.h"

namespace weftc {

/// Reports steps whose kernels read or write the memory of other ranks: over MPI there is none. False if there are any.
bool check_mpi_plan(const Plan& plan, Diags& diags);

}  // namespace weftc
