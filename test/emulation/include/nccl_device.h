// How kernels reach the windows of other ranks.
#pragma once
#include "nccl.h"

struct ncclDevCommRequirements {};
#define NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER \
  {}
/// The ranks that reach each other's memory by loads and stores: all, or with WEFT_EMULATION_NVLINK=0 each alone.
struct ncclDevComm {
  int rank, nRanks, lsaRank, lsaSize;
};
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements* requirements, ncclDevComm* out);
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm* of);

void* ncclGetLsaPointer(ncclWindow_t window, size_t offset, int peer);
void* ncclGetPeerPointer(ncclWindow_t window, size_t offset, int peer);
