// In place of ../runtime/libraries.cpp: the functions of real programs, which open cuBLASLt and NCCL, over the emulated
// device. For programs that find none of them, or not the right ones; libraries_check.py builds such.
#include "../../../runtime_lib/cuda/libraries.cpp"
#include "../../../runtime_lib/cuda/transport.h"

namespace weft {

/// The provider of ranks in one process, by the name that CMakeLists.txt gives it here.
std::unique_ptr<Transport> thread_transport(CudaState& state, Process& process);
std::unique_ptr<Transport> peer_transport(CudaState& state, Process& process) {
  return thread_transport(state, process);
}

}  // namespace weft

// The linker calls these.
extern "C" int __real_main(int argc, char** argv);
extern "C" int __wrap_main(int argc, char** argv) { return __real_main(argc, argv); }
