// Declares the names of all records. A record is defined in a file of ir/ops and listed in ops.def; a line
// there without a record does not link, and a record without a line is not found by the importer.
#pragma once

namespace weftc {

struct OpDef;

#define WEFT_OP(kind) extern const OpDef k##kind;
#include "ir/ops.def"
#undef WEFT_OP

}  // namespace weftc
