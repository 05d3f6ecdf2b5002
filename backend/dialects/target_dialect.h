// What differs between targets in emitted files and in how they are built: one record a target, and the one place in
// the backend that asks which target it is. What depends on what a target can do asks its capabilities (ir/target.h);
// how loops are printed is the record's `loops` (backend/print.h).
#pragma once
#include <vector>

#include "backend/print.h"
#include "ir/target.h"

namespace weftc {

struct TargetDialect {
  const char* name;                    // as the manifest and the emitted CMakeLists.txt have it
  const char* kernel_header;           // of the runtime, which every file of kernels includes
  const char* kernel_suffix;           // of files of kernels
  const char* languages;               // of the emitted CMakeLists.txt
  const char* invocation;              // the number of the invocation, as a launch passes it
  const char* unused_runtime;          // the folder of the runtime that its programs do not need
  std::vector<const char*> libraries;  // that its executables link, found in the toolkit
  const Dialect& (*loops)();
};

const TargetDialect& dialect_of(const Target& target);

}  // namespace weftc
