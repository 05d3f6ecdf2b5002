// What differs between targets in emitted files and in how they are built: one record a target, in a file of its own
// (host.cpp, cuda.cpp). Nothing else in the backend asks which target it is. What depends on what a target can do asks
// its capabilities (ir/target.h), which passes read too.
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

/// What compiles a program: the host's compiler, and the folder of the target's toolkit where it has one.
struct Compilers {
  std::string host, toolkit;
  bool quick = false;  // less optimisation: for programs that run once
};
using Command = std::vector<std::string>;

/// An installation that compiles kernels: how people call it, and where it is looked for.
struct Toolkit {
  const char* title;
  const char* compiler;     // in the folder bin of it
  const char* version;      // what begins the version in what the compiler says of itself
  const char* variable;     // of the environment: its folder
  const char* folder;       // its usual one
  const char* device_file;  // exists where a device is
};

/// Facts about the kernels of a target that decide what is written in them.
struct KernelFacts {
  /// Steps launch kernels on a grid of threads, which share their loops, and kernels call functions made for them. Else
  /// a kernel is a function that steps and other kernels call.
  bool has_grid;
  /// Steps read the memory of kernels, and pass lengths and the number of the invocation as values. Else kernels read
  /// them where they lie.
  bool passes_values;
  /// A wait in a kernel gives false where the kernel must leave; the host then reports the step. Else it never returns.
  bool waits_may_fail;
  /// Addresses of peers are arrays, which registers hold. Else each is a variable of its own: a host compiler
  /// vectorises over pointers, not over what it must load from an array each time.
  bool has_peer_arrays;
  /// A kernel tells what comes from peers, so that a --link of the program takes its time.
  bool counts_received;
  /// A peer table reaches the flags of its own group only, and libraries must be ready for the collectives beside a
  /// kernel that waits for them.
  bool has_group_tables;
  /// A signal between streams of one rank is an event, or a flag where a kernel signals or awaits it. Else always a
  /// flag.
  bool has_stream_events;
};

/// Words of kernels.
struct KernelWords {
  const char* kernel;              // in front of a kernel's name
  const char* function;            // in front of the type of a function that only kernels call
  const char* table;               // the type of a peer table as a kernel's parameter
  const char* function_table;      // the same as a function's parameter
  const char* one_block;           // what one block does for all: in front of a statement
  const char* invocation;          // the type of the parameter that is or holds the number of the invocation
  const char* invocation_name;     // its name
  const char* invocation_of_rank;  // what a step passes for it
  LoopKind shared_loop;            // a loop whose iterations all threads of a kernel take in turn
};

struct TargetDialect {
  const char* name;  // as the command line, the manifest and the emitted CMakeLists.txt have it

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
  const char* host_flag;                 // in front of a flag that the host's compiler shall get from the kernels'
  std::vector<const char*> precompiled;  // headers that are worth it
  std::vector<const char*> libraries;    // that executables link, found in the toolkit
  const char* runtime_library;
  const char* runtime_folder;  // of the runtime, for its programs only
  const Toolkit* toolkit;      // null: the host's compiler does all
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

/// What compiles the host's side of a program, whatever the target: `optimisation` is "-O3" or "-O1".
Command host_command(const std::string& compiler, const char* optimisation, const std::string& arch);

}  // namespace weftc
