// Programs whose kernels are compiled for several levels of CPUs: the same sources, and an object for each level whose
// symbols are its own but for the program, so that no function of one level is taken for that of another. Kernels that
// wait for memory are compiled for the lowest level alone.
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

/// What program.cpp calls the program for levels.cpp.
inline constexpr const char* kLevelSymbol = "weft_program";
/// What levels.cpp calls that of a level: the lowest has the name that it has in program.cpp.
std::string level_symbol(const Target& target, const std::string& arch);

/// How a program's main file ends: `main`, `library` or `level` in a template.
void set_entry(Params& params, const Target& target, ProgramForm form);

/// levels.cpp; nothing where the program is compiled for one level.
std::vector<SourceFile> level_files(const Plan& plan, ProgramForm form);

}  // namespace weftc
