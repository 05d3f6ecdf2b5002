// One enumerator for each line of ops.def.
#pragma once
#include <cstdint>

namespace weftc {

enum class OpKind : uint16_t {
#define WEFT_OP(kind) kind,
#include "ir/ops.def"
#undef WEFT_OP
};

}  // namespace weftc
