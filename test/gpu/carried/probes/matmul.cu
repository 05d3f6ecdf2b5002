// Prints what cuBLASLt reaches on square products of the sizes that the GPU likes, as one JSON object: fp32 as programs
// compute it (no TF32), and bf16 summed in fp32.
#include "failure.h"
#include "libraries.h"
#include "timing.h"

namespace {

constexpr size_t kWorkspaceBytes = 32 << 20;

void check_lt(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fprintf(stderr, "cuBLASLt: %s: %s\n", what, weft::open_cublaslt().status_text(status));
  exit(6);
}

/// Numbers in [-1, 1) by a hash of their place: products of zeros run faster than products do.
template <class T>
__global__ void fill(T* at, size_t count) {
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x) {
    const unsigned hash = unsigned(i * 0x9e3779b97f4a7c15u >> 32);
    const float value = float(hash >> 8) * 0x1p-23f - 1;
    if constexpr (sizeof(T) == 4)
      at[i] = value;
    else
      at[i] = T(__float_as_uint(value) >> 16);
  }
}

template <class T>
double tflops(cudaDataType_t type, int n) {
  const weft::CublasLt& lt = weft::open_cublaslt();
  const size_t count = size_t(n) * size_t(n);
  T* memory = nullptr;
  void* workspace = nullptr;
  check(cudaMalloc(&memory, 3 * count * sizeof(T)), "memory");
  check(cudaMalloc(&workspace, kWorkspaceBytes), "memory");
  fill<<<1024, 256>>>(memory, 2 * count);
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t product;
  cublasLtMatrixLayout_t layout;
  cublasLtMatmulPreference_t preference;
  check_lt(lt.create(&handle), "its start");
  check_lt(lt.create_matmul(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a product");
  check_lt(lt.create_layout(&layout, type, uint64_t(n), uint64_t(n), n), "a layout");
  check_lt(lt.create_preference(&preference), "a preference");
  check_lt(
      lt.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes, sizeof kWorkspaceBytes),
      "a workspace");
  cublasLtMatmulHeuristicResult_t chosen = {};
  int found = 0;
  check_lt(lt.heuristic(handle, product, layout, layout, layout, layout, preference, 1, &chosen, &found),
           "an algorithm");
  const float one = 1, zero = 0;
  const float ms = best_ms(10, [&] {
    check_lt(lt.matmul(handle, product, &one, memory, layout, memory + count, layout, &zero, memory + 2 * count, layout,
                       memory + 2 * count, layout, &chosen.algo, workspace, kWorkspaceBytes, nullptr),
             "a product");
  });
  lt.destroy_preference(preference);
  lt.destroy_layout(layout);
  lt.destroy_matmul(product);
  lt.destroy(handle);
  cudaFree(memory);
  cudaFree(workspace);
  return 2.0 * double(n) * double(n) * double(n) / (double(ms) * 1e9);
}

}  // namespace

int main() {
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "the devices");
  try {
    printf("{\"fp32_tflop_s\": %.1f, \"bf16_tflop_s\": %.1f}\n", tflops<float>(CUDA_R_32F, 4096),
           tflops<unsigned short>(CUDA_R_16BF, 8192));
  } catch (const weft::Failure& failure) {
    fprintf(stderr, "%s\n", failure.text.c_str());
    return failure.code;
  }
}
