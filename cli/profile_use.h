// --profile where no order is searched.
#pragma once
#include "cli/compilation.h"
#include "cli/options.h"

namespace weftc {

/// For --profile and an order that is not searched, whose times nothing has asked for so far. False after reporting.
bool add_measured_times(Compilation& compilation, const Options& options, Diags& diags);

/// A profile serves the search of an order; where none is searched, the user is told.
void warn_of_unused_profile(const Compilation& compilation, const Options& options, Diags& diags);

}  // namespace weftc
