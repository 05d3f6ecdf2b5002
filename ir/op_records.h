// The names of all records: each is defined in a file of ir/ops and listed in ops.def.
#pragma once

namespace weftc {

struct OpDef;

#define WEFT_OP(kind) extern const OpDef k##kind;
#include "ir/ops.def"
#undef WEFT_OP

}  // namespace weftc
