// The conditions that a well-formed graph meets in each form (passes/README.md, Forms). A violation is a bug of the
// pass before.
#pragma once
#include <string>
#include <vector>

#include "ir/module.h"

namespace weftc {

/// Imported: as read. Typed: every value has dtype and shape. Decomposed: no Composite op is left. Laid: every op's
/// operands and results have layouts that its rule gives. Scheduled: Laid, with Chunks. Stored: each value read from
/// memory outside of kernels can have a buffer. Fused: every op that computes is in a Fused region.
enum class Form { Imported, Typed, Decomposed, Laid, Scheduled, Stored, Fused };
const char* form_name(Form form);

/// All violations, one line each; empty for a well-formed graph.
std::vector<std::string> verify(const Module& module, Form form);

}  // namespace weftc
