// Casts between numbers and strings.
#pragma once
#include "ir/op_def.h"

namespace weftc {

/// True for types whose numbers are cast to and from strings: floats and integers that C++ has a name for. Else
/// reports.
bool has_text_form(const OpView& op, DType dtype);

/// Numbers to strings, or strings to numbers.
void eval_string_cast(EvalContext& context);

}  // namespace weftc
