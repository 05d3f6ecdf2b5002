// The libraries that are opened at start: cuBLASLt and NCCL as tables of functions. The emulation of tests replaces
// libraries.cpp and nothing else.
#pragma once
#include <string>

#include "toolkit.h"

namespace weft {

struct CublasLt {
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtGetStatusString) status_text;
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulDescCreate) create_matmul;
  decltype(&cublasLtMatmulDescSetAttribute) set_matmul;
  decltype(&cublasLtMatmulDescDestroy) destroy_matmul;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
};

struct Nccl {
  decltype(&ncclGetVersion) version;
  decltype(&ncclGetErrorString) error_text;
  decltype(&ncclGetUniqueId) unique_id;
  decltype(&ncclCommInitRank) init_rank;
  decltype(&ncclCommAbort) abort;
  decltype(&ncclCommDestroy) destroy;
  decltype(&ncclCommGetAsyncError) async_error;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclReduce) reduce;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) recv;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclMemAlloc) mem_alloc;
  decltype(&ncclMemFree) mem_free;
};

/// Finds the addresses of the windows of ranks in one NVLink domain, by NCCL's device API (lsa.cu). Returns "", or the
/// reason for a failure.
std::string lsa_addresses(const Nccl& nccl, ncclComm_t world, int ranks, char* window, size_t bytes, char** addresses);

/// Both throw (environment) if the library is missing or too old.
const CublasLt& open_cublaslt();
const Nccl& open_nccl();
/// A function that only the device API has, from the library that is open; nullptr if it has none.
void* nccl_symbol(const char* name);

}  // namespace weft
