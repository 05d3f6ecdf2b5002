// Timelines that the verbs make and write.
#pragma once
#include <optional>

#include "cli/compile.h"
#include "cli/timeline_text.h"
#include "passes/pipelining/order_picture.h"

namespace weftc {

/// The timeline of a compiled plan on the machine of its compilation.
Timeline predicted_timeline(const Compilation& compilation);
/// The order of its pipeline on the same machine; nullopt without a pipeline.
std::optional<OrderPicture> predicted_order(const Compilation& compilation, const Options& options, Diags& diags);

}  // namespace weftc
