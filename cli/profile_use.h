// The use of --profile if no order is searched.
#pragma once
#include "cli/compilation.h"
#include "cli/options.h"

namespace weftc {

/// Reads --profile for an order that is not searched, since nothing has used its times so far. False after reporting.
bool add_measured_times(Compilation& compilation, const Options& options, Diags& diags);

/// A profile is for the search of an order; without a search, the user gets a message.
void warn_of_unused_profile(const Compilation& compilation, const Options& options, Diags& diags);

}  // namespace weftc
