// The headers of CUDA's toolkit and of the libraries that the runtime calls: the one place that includes them, so that
// a toolkit whose functions have other names is told here.
#pragma once
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <nccl.h>
