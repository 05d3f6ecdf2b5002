// Memory on the device and pinned memory of the host, freed by their owners.
#pragma once
#include <cstring>
#include <memory>

#include "launch.h"
#include "toolkit.h"

namespace weft {

struct FreeDevice {
  void operator()(char* at) const { cudaFree(at); }
};
struct FreePinned {
  void operator()(void* at) const { cudaFreeHost(at); }
};
using DeviceBytes = std::unique_ptr<char, FreeDevice>;
template <class T>
using Pinned = std::unique_ptr<T, FreePinned>;

inline DeviceBytes device_bytes(int64_t bytes, const char* what) {
  void* at = nullptr;
  if (bytes > 0) check_cuda(cudaMalloc(&at, size_t(bytes)), what);
  return DeviceBytes(static_cast<char*>(at));
}

/// Zeroed memory that device and host access at one address.
template <class T>
Pinned<T> pinned(size_t count) {
  void* at = nullptr;
  check_cuda(cudaHostAlloc(&at, count * sizeof(T), cudaHostAllocMapped | cudaHostAllocPortable), "pinned memory");
  memset(at, 0, count * sizeof(T));
  return Pinned<T>(static_cast<T*>(at));
}

}  // namespace weft
