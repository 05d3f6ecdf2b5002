// Opens the device and then the libraries for a process of a cuda program.
#include <cstdlib>

#include "cuda_state.h"
#include "libraries.h"
#include "open_relay.h"

namespace weft {

const bool kWindowsInWorld = false;
const int kNotesOfRank = 64;

namespace {

struct CudaTarget final : Target {
  CudaTarget(const Executable& e, int device_count) : executable(e), devices(device_count), process(e.world) {}

  std::unique_ptr<RankBase> make_rank(const Program& program, World& world, int rank, const char* image,
                                      std::string_view manifest, const RankOptions& options) override {
    if (!options.cores.empty()) fail(kUsage, "--bind: the ranks of this program compute on devices");
    const int place = world.relay == nullptr ? rank : world.relay->local_rank();
    const int sharers = options.in_process ? (executable.world + devices - 1) / devices : 1;
    return std::make_unique<CudaState>(executable, program, world, rank, image, manifest, options,
                                       DevicePlace{place % devices, sharers}, process);
  }

  const Executable& executable;
  const int devices;
  Process process;
};

/// Kernels that wait for each other must not wait for another kernel to load, nor share a queue. Kernels of several
/// communicators start in the order in which the host issues them, which is the program's order on all ranks.
void set_environment() {
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

int count_devices() {
  int driver = 0, devices = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    fail(kEnvironment, "no CUDA device: this machine has no CUDA driver; the program was compiled for cuda");
  if (driver / 1000 < CUDART_VERSION / 1000)
    fail(kEnvironment, "the CUDA driver is too old: it knows CUDA %d.%d, the program needs %d.0", driver / 1000,
         driver / 10 % 100, CUDART_VERSION / 1000);
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices > 0) return devices;
  fail(kEnvironment, "no CUDA device%s%s: the program was compiled for cuda", error == cudaSuccess ? "" : ": ",
       error == cudaSuccess ? "" : cudaGetErrorString(error));
}

}  // namespace

std::unique_ptr<Target> open_target(const Executable& executable, int ranks_here) {
  set_environment();
  const int devices = count_devices();
  if (ranks_here == 0 && executable.world > devices)
    fail(kEnvironment,
         "the program has %d ranks, one GPU each, but this machine has %d; --ranks-as-threads lets them share",
         executable.world, devices);
  if (make_contractions != nullptr) open_cublaslt();
  if (executable.world > 1 && ranks_here <= 1) open_nccl();
  return std::make_unique<CudaTarget>(executable, devices);
}

}  // namespace weft
