// What a well-formed graph looks like in each form (passes/README.md, Forms). A violation is a bug of the pass before.
#pragma once
#include <string>
#include <vector>

#include "ir/module.h"

namespace weftc {

/// Imported: as read. Typed: every value has dtype and shape. Decomposed: no Composite op is left. Laid: every op's
/// operands and results have layouts that its rule gives. Scheduled: Laid, with Chunks. Stored: what is read from
/// memory outside of kernels can have a buffer. Fused: every op that computes stands in a Fused region.
enum class Form { Imported, Typed, Decomposed, Laid, Scheduled, Stored, Fused };
const char* form_name(Form form);

/// Everything that is wrong, one line each; empty when well.
std::vector<std::string> verify(const Module& module, Form form);

}  // namespace weftc
