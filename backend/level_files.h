// Programs whose kernels are compiled for several levels of CPUs: the same sources, and an object for each level. All
// symbols of an object except the program are local, so that no function of one level is used for another. Kernels
// bound by memory are compiled for the lowest level only.
//
//   program.o kernels/*.o (x86-64-v3)    weft_program
//   program.o kernels/*.o (x86-64-v4)    weft_program_x86_64_v4    levels.cpp: main, which chooses
#pragma once
#include <string>
#include <vector>

#include "backend/render.h"
#include "backend/source_file.h"
#include "ir/plan.h"

namespace weftc {

/// Symbol of the program in program.cpp, for levels.cpp.
inline constexpr const char* kLevelSymbol = "weft_program";
/// Symbol of a level's program in levels.cpp; the lowest level keeps the name from program.cpp.
std::string level_symbol(const Target& target, const std::string& arch);

/// The end of a program's main file: `main`, `library` or `level` in a template.
void set_entry(Params& params, const Target& target, ProgramForm form);

/// levels.cpp; empty if the program is compiled for one level.
std::vector<SourceFile> level_files(const Plan& plan, ProgramForm form);

}  // namespace weftc
