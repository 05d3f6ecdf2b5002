// From emitted sources to what the user asked for: where the runtime library lies, the toolchain, the result in its
// place.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backend/dialects/target_dialect.h"
#include "backend/emit.h"
#include "backend/pack.h"
#include "cli/options.h"
#include "ir/plan.h"
#include "ir/target.h"

namespace weftc {

/// The runtime library as this executable finds it: in the tree it was built from, or installed.
struct RuntimeLibrary {
  std::string folder;   // include/, src/, program.cmake
  std::string library;  // of the target and its machine, such as libweft_runtime.a
};
std::optional<RuntimeLibrary> find_runtime(const Target& target, Diags& diags);

/// The folder of a toolkit: the one above its compiler in PATH, what its variable names, its usual folder, or the one
/// that ./dev installed. Empty if there is none, or if the target needs none (null).
std::string find_toolkit(const Toolkit* toolkit);
/// "no nvcc in PATH, CUDA_HOME or /usr/local/cuda"
std::string missing_toolkit(const Toolkit& toolkit);

/// The C++ compiler of emitted programs: g++, or clang++ where there is none; for another machine Debian's cross
/// compiler. Empty if there is none.
std::string find_compiler(const Target& target);
/// "neither g++ nor clang++ is in PATH"
std::string missing_compiler(const Target& target);

/// The folder that WEFT_PRECOMPILED_HEADERS names: for those who build many programs in a row. Empty if there is none.
std::string precompiled_folder();

/// What the compiler wrapper of an MPI adds to the commands that compile and link; empty if it cannot be run.
std::vector<std::string> find_mpi(const std::string& wrapper);

/// Reports before the work starts where its result cannot be written.
bool check_output(const Options& options, Diags& diags);

/// What programs that are built one after another, with the same options, have in common: folders, or none.
struct BuildCache {
  std::string precompiled;  // headers
  std::string objects;      // of equal sources
};

/// The executable at options.output. The exit code, after reporting.
int build(const Plans& plans, const std::vector<SourceFile>& files, const Options& options, Diags& diags,
          const BuildCache& cache = {precompiled_folder(), ""});
/// The folder options.output, which builds without Weft.
int write_sources(const Plans& plans, const std::vector<SourceFile>& files, const Options& options, Diags& diags);

}  // namespace weftc
