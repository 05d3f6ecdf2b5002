// In place of runtime_lib/cuda/libraries.cpp: the tables hold the emulation's functions, nothing is opened. And what
// makes an emitted program run its ranks as threads. Part of the emulated runtime, not of the emulation itself.
#include "../../../runtime_lib/cuda/libraries.h"

#include <nccl_device.h>

#include <string_view>

#include "../../../runtime_lib/cuda/transport.h"

namespace weft {

/// The provider of ranks in one process, by the name that CMakeLists.txt gives it here.
std::unique_ptr<Transport> thread_transport(CudaState& state, Process& process);

/// The runtime gives NCCL to ranks that are processes only; here it can be tested with threads.
std::unique_ptr<Transport> peer_transport(CudaState& state, Process& process) {
  return emulation::knobs().nccl ? nccl_transport(state) : thread_transport(state, process);
}

const CublasLt& open_cublaslt() {
  static constexpr CublasLt table = {
      .version = cublasLtGetVersion,
      .status_text = cublasLtGetStatusString,
      .create = cublasLtCreate,
      .destroy = cublasLtDestroy,
      .matmul = cublasLtMatmul,
      .heuristic = cublasLtMatmulAlgoGetHeuristic,
      .create_matmul = cublasLtMatmulDescCreate,
      .set_matmul = cublasLtMatmulDescSetAttribute,
      .destroy_matmul = cublasLtMatmulDescDestroy,
      .create_layout = cublasLtMatrixLayoutCreate,
      .set_layout = cublasLtMatrixLayoutSetAttribute,
      .destroy_layout = cublasLtMatrixLayoutDestroy,
      .create_preference = cublasLtMatmulPreferenceCreate,
      .set_preference = cublasLtMatmulPreferenceSetAttribute,
      .destroy_preference = cublasLtMatmulPreferenceDestroy,
  };
  return table;
}

const Nccl& open_nccl() {
  static constexpr Nccl table = {
      .version = ncclGetVersion,
      .error_text = ncclGetErrorString,
      .unique_id = ncclGetUniqueId,
      .init_rank = ncclCommInitRank,
      .abort = ncclCommAbort,
      .destroy = ncclCommDestroy,
      .async_error = ncclCommGetAsyncError,
      .all_reduce = ncclAllReduce,
      .reduce_scatter = ncclReduceScatter,
      .all_gather = ncclAllGather,
      .broadcast = ncclBroadcast,
      .reduce = ncclReduce,
      .send = ncclSend,
      .recv = ncclRecv,
      .group_start = ncclGroupStart,
      .group_end = ncclGroupEnd,
      .mem_alloc = ncclMemAlloc,
      .mem_free = ncclMemFree,
  };
  return table;
}

void* nccl_symbol(const char* name) {
  const std::string_view wanted = name;
  if (wanted == "ncclDevCommCreate") return reinterpret_cast<void*>(ncclDevCommCreate);
  if (wanted == "ncclDevCommDestroy") return reinterpret_cast<void*>(ncclDevCommDestroy);
  if (wanted == "ncclCommWindowRegister") return reinterpret_cast<void*>(ncclCommWindowRegister);
  return nullptr;
}

}  // namespace weft

// The linker calls these: every emulated program has the flag, unless its ranks are to be processes.
extern "C" int __real_main(int argc, char** argv);
extern "C" int __wrap_main(int argc, char** argv) {
  if (weft::emulation::knobs().processes) return __real_main(argc, argv);
  std::vector<char*> arguments(argv, argv + argc);
  static char flag[] = "--ranks-as-threads";
  arguments.push_back(flag);
  arguments.push_back(nullptr);
  return __real_main(int(arguments.size()) - 1, arguments.data());
}
