// Loop nests over an iteration space that store outputs: the body of every kernel that is not a dense contraction.
#pragma once
#include "backend/element.h"

namespace weftc {

/// The statements of a kernel's body, or nothing after refusing. Every output is written whole.
Statements write_nests(KernelContext& context);

/// Statements that compute all elements of a value into a new array `array`, stored so: dense whatever its run-time
/// lengths are, unless the storage is by bounds. Elements are of the value's compute type, if of no other.
Statements write_array(KernelContext& context, ValueId value, const std::string& array, const Storage& storage = {},
                       const char* element_type = nullptr);

}  // namespace weftc
