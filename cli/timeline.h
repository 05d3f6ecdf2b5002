// Timelines as the verbs make and write them.
#pragma once
#include "cli/compile.h"
#include "cli/timeline_text.h"

namespace weftc {

/// The timeline of a compiled plan, with the ceilings of its target unless --ceiling replaces them.
Timeline predicted_timeline(const Compilation& compilation, const Options& options);

}  // namespace weftc
