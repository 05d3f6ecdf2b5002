// Differences between targets in emitted files and in their compilation: one record a target, in a file of its own
// (host.cpp, cuda.cpp). The rest of the backend never asks which target it is. It asks for the target's capabilities
// (ir/target.h), which passes read too.
#pragma once
#include <string>
#include <vector>

#include "backend/print.h"
#include "ir/base/check.h"
#include "ir/target.h"

namespace weftc {

/// The launch of a kernel, as a step of the program writes it.
struct KernelLaunch {
  std::string name;
  int64_t blocks = 1, threads = 1;
  bool waits = false;  // for other ranks or streams: all its blocks must be resident
  std::vector<std::string> arguments;
};

/// Compilers of a program: the host's compiler, and the folder of the target's toolkit if it has one.
struct Compilers {
  std::string host, toolkit;
  bool quick = false;  // less optimisation, for programs that run once
};
using Command = std::vector<std::string>;

/// An installation that compiles kernels: its names, and where it is searched.
struct Toolkit {
  const char* title;
  const char* compiler;     // in its folder bin
  const char* version;      // text before the version in the compiler's --version output
  const char* variable;     // of the environment, with its folder
  const char* folder;       // the usual folder
  const char* device_file;  // exists if the machine has a device
};

/// Properties of a target's kernels that determine their text.
struct KernelFacts {
  /// Steps launch kernels on a grid of threads, which share their loops, and kernels call functions made for them.
  /// Otherwise a kernel is a function that steps and other kernels call.
  bool has_grid;
  /// Steps read the memory of kernels, and pass lengths and the number of the invocation as values. Otherwise kernels
  /// read them from memory.
  bool passes_values;
  /// A wait in a kernel returns false if the kernel must leave; the host then reports the step. Otherwise it never
  /// returns in that case.
  bool waits_may_fail;
  /// Addresses of peers are arrays in registers. Otherwise each is a variable of its own: a host compiler vectorises
  /// over pointers, not over addresses that it loads from an array each time.
  bool has_peer_arrays;
  /// A kernel reports the bytes that it receives from peers, so that --link of the program can model their time.
  bool counts_received;
  /// A peer table has the flags of its own group only, and libraries must be ready for collectives beside a kernel that
  /// waits for them.
  bool has_group_tables;
  /// A signal between streams of one rank is an event, or a flag if a kernel raises or awaits it. Otherwise it is
  /// always a flag.
  bool has_stream_events;
};

/// Keywords and types in the text of kernels.
struct KernelWords {
  const char* kernel;              // before a kernel's name
  const char* function;            // before the type of a function that only kernels call
  const char* table;               // the type of a peer table as a kernel's parameter
  const char* function_table;      // the same as a function's parameter
  const char* one_block;           // before a statement that one block executes for all
  const char* invocation;          // the type of the parameter that is or holds the number of the invocation
  const char* invocation_name;     // its name
  const char* invocation_of_rank;  // the expression that a step passes for it
  LoopKind shared_loop;            // a loop whose iterations are shared by all threads of a kernel
};

struct TargetDialect {
  const char* name;  // in the command line, the manifest and the emitted CMakeLists.txt

  // Emitted files.
  const char* program_header;  // of the runtime, which program.cpp includes
  const char* kernel_header;   // of the runtime, which every file of kernels includes
  const char* kernel_suffix;   // of files of kernels

  // Kernels.
  KernelFacts facts;
  KernelWords words;
  const LoopDialect& (*loops)();
  std::string (*launch)(const KernelLaunch&);

  // The emitted CMakeLists.txt.
  const char* languages;
  const char* arch_variable;
  const char* arch_meaning;
  std::string (*archs)(const Target&);

  // Building: commands without files and folders.
  Command (*program_compiler)(const Target&, const Compilers&);
  Command (*kernel_compiler)(const Target&, const Compilers&);
  const char* host_flag;                 // before a flag that the kernels' compiler passes to the host's
  std::vector<const char*> precompiled;  // headers worth precompiling
  std::vector<const char*> libraries;    // that executables link, found in the toolkit
  const char* runtime_library;
  const char* runtime_folder;  // of the runtime, for its programs only
  const Toolkit* toolkit;      // null: the host's compiler compiles everything
};

const TargetDialect& host_dialect();
const TargetDialect& cuda_dialect();

inline const TargetDialect& dialect_of(Target::Kind target) {
  switch (target) {
    case Target::Kind::Host:
      return host_dialect();
    case Target::Kind::Cuda:
      return cuda_dialect();
  }
  check_failed(__FILE_NAME__, __LINE__, "a target without a dialect");
}
inline const TargetDialect& dialect_of(const Target& target) { return dialect_of(target.kind); }

/// The command that compiles the host's side of a program, for any target: `optimisation` is "-O3" or "-O1".
Command host_command(const std::string& compiler, const char* optimisation, const std::string& arch);

}  // namespace weftc
