// NCCL 2.28 tells the addresses of symmetric windows to kernels only: one asks once for all ranks. Needs NCCL's device
// headers, and a library of at least their version.
#include <nccl_device.h>

#include "launch.h"
#include "libraries.h"
#include "memory.h"

namespace weft {

namespace kernels {

/// One thread a rank.
__global__ void ask_addresses(ncclWindow_t window, char** addresses) {
  addresses[threadIdx.x] = static_cast<char*>(ncclGetLsaPointer(window, 0, int(threadIdx.x)));
}

}  // namespace kernels

template <class F>
static F device_api(const char* name, F) {
  return reinterpret_cast<F>(nccl_symbol(name));
}

/// Whether all ranks reach each other's memory by loads and stores.
static bool is_one_domain(ncclComm_t world, int ranks) {
  const auto create = device_api("ncclDevCommCreate", &ncclDevCommCreate);
  const auto destroy = device_api("ncclDevCommDestroy", &ncclDevCommDestroy);
  if (create == nullptr || destroy == nullptr) return false;
  ncclDevCommRequirements requirements = {};
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER
  requirements = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#endif
  ncclDevComm communicator = {};
  if (create(world, &requirements, &communicator) != ncclSuccess) return false;
  const bool all = communicator.lsaSize == ranks;
  destroy(world, &communicator);
  return all;
}

std::string lsa_addresses(const Nccl&, ncclComm_t world, int ranks, char* window, size_t bytes, char** addresses) {
  const auto enroll = device_api("ncclCommWindowRegister", &ncclCommWindowRegister);
  if (!is_one_domain(world, ranks)) return "the GPUs of the ranks are not in one NVLink domain";
  ncclWindow_t handle = nullptr;
  if (enroll(world, window, bytes, &handle, NCCL_WIN_COLL_SYMMETRIC) != ncclSuccess || handle == nullptr)
    return "NCCL cannot register symmetric windows on this machine";
  const DeviceBytes table = device_bytes(int64_t{ranks} * int64_t{sizeof(char*)}, "a table of windows");
  char** const at = reinterpret_cast<char**>(table.get());
  launch_kernel(nullptr, kernels::ask_addresses, {1, unsigned(ranks)}, handle, at);
  check_cuda(cudaMemcpy(addresses, at, size_t(ranks) * sizeof(char*), cudaMemcpyDeviceToHost),
             "the windows' addresses");
  return {};
}

}  // namespace weft
