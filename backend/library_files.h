// The files that make a program a library with C functions: their header, their implementation, a CMake package.
#pragma once
#include "backend/emit.h"
#include "backend/pack.h"

namespace weftc {

/// include/NAME.h and lib/cmake/NAME/NAMEConfig.cmake, which accompany the library, and library.cpp, which is compiled
/// into it.
std::vector<SourceFile> library_files(const Plans& plans);

/// The name of the library, and the prefix of its functions.
std::string library_name(const Plan& plan);
/// False after reporting a name whose library a linker would confuse with a system library: -lm finds libm.so.
bool check_library_name(const Plan& plan, Diags& diags);

}  // namespace weftc
