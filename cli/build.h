// Builds the requested result from emitted sources: finds the runtime library and the toolchain, and puts the result in
// its place.
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

/// The runtime library that this executable finds: in its build tree, or installed.
struct RuntimeLibrary {
  std::string folder;   // include/, src/, program.cmake
  std::string library;  // for the target and its machine, such as libweft_runtime.a
};
std::optional<RuntimeLibrary> find_runtime(const Target& target, Diags& diags);

/// The folder of a toolkit: above its compiler in PATH, in its environment variable, its usual folder, or the one that
/// ./dev installed. Empty if it is not found, or if the target has no toolkit (null).
std::string find_toolkit(const Toolkit* toolkit);
/// "no nvcc in PATH, CUDA_HOME or /usr/local/cuda"
std::string missing_toolkit(const Toolkit& toolkit);

/// The C++ compiler of emitted programs: g++, or else clang++; for another machine Debian's cross compiler. Empty if it
/// is not found.
std::string find_compiler(const Target& target);
/// "neither g++ nor clang++ is in PATH"
std::string missing_compiler(const Target& target);

/// The folder that WEFT_PRECOMPILED_HEADERS names, for builds of many programs in a row. Empty if it is not set.
std::string precompiled_folder();

/// The flags that an MPI's compiler wrapper adds to the compile and link commands; empty if it cannot be run.
std::vector<std::string> find_mpi(const std::string& wrapper);

/// Reports before the work starts if its result cannot be written.
bool check_output(const Options& options, Diags& diags);

/// Folders that successive builds with the same options share; empty names: no sharing.
struct BuildCache {
  std::string precompiled;  // headers
  std::string objects;      // of equal sources
};

/// Builds the executable at options.output. Returns the exit code, after reporting.
int build(const Plans& plans, const std::vector<SourceFile>& files, const Options& options, Diags& diags,
          const BuildCache& cache = {precompiled_folder(), ""});
/// Writes the folder options.output, which builds without Weft.
int write_sources(const Plans& plans, const std::vector<SourceFile>& files, const Options& options, Diags& diags);

}  // namespace weftc
