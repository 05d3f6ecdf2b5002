// The target of a Plan, as capabilities: passes read these and never ask which target it is.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weftc {

/// A level of CPUs, as --arch names it; `native` is the level of the build machine's CPU.
struct HostArch {
  const char* name;
  const char* march;    // the name that g++ has for it
  const char* machine;  // of the programs, as the prefix of compilers' names: x86_64-linux-gnu-g++
  int vector_floats;    // in a vector register
  bool has_fma;         // one instruction multiplies and adds
};
/// Null for an unknown name.
const HostArch* find_host_arch(std::string_view name);
/// In the order of their table; levels of one machine go from low to high.
std::vector<std::string> host_arch_names();
/// The machine that this compiler runs on.
const char* this_machine();

struct Target {
  /// Only the command line, the backend's dialects and the cost model's table of machines read it.
  enum class Kind : uint8_t { Host, Cuda };
  Kind kind = Kind::Host;
  std::vector<std::string> archs;        // host: levels of CPUs, from low to high; cuda: sm_80, ...
  std::string machine = this_machine();  // that ranks run on
  int64_t memory = 0;                    // bytes a rank may use; 0: not limited

  int vector_floats = 8;          // floats in a vector register
  bool has_fma = true;            // one instruction multiplies and adds vectors
  int panel_width = 16;           // columns of a packed weight's panels; 0: kernels read weights row-major
  int warp = 0;                   // threads that run in step; 0: kernels are functions that a core runs
  int64_t resident_blocks = 0;    // device: maximum for a kernel whose blocks wait for each other, or for peers
  int64_t chunk_threads = 0;      // device: threads of each block in a loop over chunks that is one kernel
  int64_t multiprocessors = 0;    // device: number of blocks that fills the device
  int64_t shared_memory = 0;      // bytes of fast memory for the operands of a block's tile; 0: not limited
  bool library_products = false;  // a library computes matrix products, with a bias, then Relu or the tanh Gelu

  /// Kernels run on a grid of thread blocks; without one, the threads of a team share a kernel's loops.
  bool has_grid() const { return warp > 0; }
  /// Kernels are compiled once for each of several levels of CPUs, and a program chooses when it starts. (A device's
  /// archs are in one file, from which the driver loads the matching one.)
  bool has_levels() const { return !has_grid() && archs.size() > 1; }
};

/// Cores of these levels of one machine, from low to high: kernels are planned for the lowest.
Target host_target(std::vector<std::string> archs);
/// GPUs with CUDA; cuBLASLt is the library.
Target cuda_target(std::vector<std::string> archs);

}  // namespace weftc
