// Builds an executable from sources: compiler runs, link, and appended weights. Also writes source folders that build
// by themselves.
#pragma once
#include "backend/emit.h"
#include "backend/pack.h"

namespace weftc {

struct BuildOptions {
  std::string work_dir;         // sources, objects and logs; created if necessary
  std::string output;           // the executable, or the folder of sources
  std::string runtime_dir;      // runtime_lib: include/, src/, program.cmake
  std::string runtime_library;  // libweft_runtime.a
  std::string compiler = "g++";
  std::string library = "";                 // name of a shared library; empty: an executable is built
  bool over_mpi = false;                    // otherwise the ranks of host programs share memory
  std::vector<std::string> mpi_flags = {};  // flags to compile and link programs for an MPI
  std::string mpicc = "";                   // wrapper of the MPI that sources are for; empty: any that CMake finds
  std::string toolkit;                      // bin/, include/, lib/ of the target's toolkit, if it has one
  std::string precompiled = "";             // folder for precompiled headers (precompiled.h); empty: none
  std::string objects = "";                 // folder of objects for many programs with these options; empty: none
  bool quick = false;                       // less optimisation, for programs that run once
  int jobs = 0;                             // 0: as many as there are cores
  bool progress = true;                     // a line for each file, on standard error
};

enum class BuildResult { Built, ToolchainFailed, FileFailed };

/// Compiles and links: an executable without weights.
BuildResult build_program(const Target& target, const std::vector<SourceFile>& files, const BuildOptions& options,
                          Diags& diags);
/// Compiles, links and appends. Reports `toolchain-failed` (exit 4) with the file and the end of the compiler's log.
BuildResult build_executable(const Plans& plans, const std::vector<SourceFile>& files, const BuildOptions& options,
                             Diags& diags);
/// Writes the sources, weights.bin and a copy of the runtime library into options.output.
BuildResult write_source_folder(const Plans& plans, const std::vector<SourceFile>& files, const BuildOptions& options,
                                Diags& diags);

}  // namespace weftc
