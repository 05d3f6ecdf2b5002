// Plan -> source files of a program. Emission decides nothing: buffers, steps, signals and the way each kernel
// is computed are in the Plan, and the same Plan gives the same bytes.
//
//   program.cpp              declarations, one function for each block of steps, tables for the runtime
//   kernels/contraction.cpp  the kernels of one category as C++ functions; cut into several files if they are long
//   kernels/chunks.cpp       loops over chunks that are one kernel, if there are any
//   levels.cpp               main, where the program is compiled for several levels of CPUs
//   CMakeLists.txt           builds the program from these sources
//   manifest.json            for tools: steps, kernels with their strategies, buffers, and the nodes they come from
#pragma once
#include <string>
#include <vector>

#include "backend/source_file.h"
#include "ir/plan.h"

namespace weftc {

/// The files of the program. An op that a kernel cannot compute, or a port with too many dimensions, is reported to
/// `diags`; then the result is empty. `variant` is the namespace of a variant inside the program's.
std::vector<SourceFile> emit(const Plan& plan, Diags& diags, ProgramForm form = ProgramForm::Executable,
                             const std::string& variant = "");
/// CMakeLists.txt for a program of these files.
std::string cmake_text(const Plan& plan, const std::vector<SourceFile>& files);

/// manifest.json: the model nodes and the line of the schedule that each step comes from, and the reason for each
/// kernel's strategy.
std::string manifest_text(const Plan& plan);

}  // namespace weftc
