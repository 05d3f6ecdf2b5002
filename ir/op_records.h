// Declares the names of all records. A record is defined in a file of ir/ops and listed in ops.def. A line there
// without a record does not link; the importer does not find a record without a line.
#pragma once

namespace weftc {

struct OpDef;

#define WEFT_OP(kind) extern const OpDef k##kind;
#include "ir/ops.def"
#undef WEFT_OP

}  // namespace weftc
