// How kernels reach the windows of other ranks.
#pragma once
#include "nccl.h"

void* ncclGetLsaPointer(ncclWindow_t window, size_t offset, int peer);
void* ncclGetPeerPointer(ncclWindow_t window, size_t offset, int peer);
