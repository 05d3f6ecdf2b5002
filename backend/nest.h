// Loop nests over an iteration space that store outputs: the body of every kernel that is not a dense contraction.
#pragma once
#include "backend/element.h"

namespace weftc {

/// The statements of a kernel's body, or nothing after refusing. Every output is written completely.
Statements write_nests(KernelContext& context);

/// Statements that compute all elements of a value into a new array `array` with this storage. It is dense for all
/// run-time lengths, unless the storage is by bounds. Elements have the value's compute type by default.
Statements write_array(KernelContext& context, ValueId value, const std::string& array, const Storage& storage = {},
                       const char* element_type = nullptr);

}  // namespace weftc
