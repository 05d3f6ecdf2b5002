// The files by which a program is a library with C functions: their header, what stands behind it, a CMake package.
#pragma once
#include "backend/emit.h"
#include "backend/pack.h"

namespace weftc {

/// include/NAME.h and lib/cmake/NAME/NAMEConfig.cmake, which go with the library, and library.cpp, which goes into it.
std::vector<SourceFile> library_files(const Plans& plans);

/// What the library and its functions are called after.
std::string library_name(const Plan& plan);
/// False after reporting a name whose library a linker would take for one of the system: -lm finds libm.so.
bool check_library_name(const Plan& plan, Diags& diags);

}  // namespace weftc
