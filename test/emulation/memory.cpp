#include "memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "streams.h"

namespace weft::emulation {

namespace {

constexpr size_t kAlignment = 256, kZone = kAddressSanitizer ? 0 : 256;
constexpr unsigned char kZoneByte = 0xa5;

struct Allocation {
  char* at;
  size_t bytes;
  Memory kind;
};

std::map<const char*, Allocation>& allocations() {
  static auto& it = *new std::map<const char*, Allocation>;
  return it;
}

/// A check that no sanitizer takes for an access of the program.
bool intact(const Allocation& allocation) {
  if (allocation.kind == Memory::Registered) return true;
  const volatile unsigned char* end = reinterpret_cast<unsigned char*>(allocation.at) + allocation.bytes;
  const volatile unsigned char* begin = reinterpret_cast<unsigned char*>(allocation.at) - kZone;
  for (size_t i = 0; i < kZone; ++i)
    if (begin[i] != kZoneByte || end[i] != kZoneByte) return false;
  return true;
}

void check(const Allocation& allocation, const char* after) {
  if (!intact(allocation)) fail("a write beside an allocation of %zu bytes, noticed after %s", allocation.bytes, after);
}

void* allocate(size_t bytes, Memory kind) {
  const size_t whole = (bytes + 2 * kZone + kAlignment - 1) / kAlignment * kAlignment;
  // The exact size, so that the address sanitizer's red zone begins right after it.
  void* memory = nullptr;
  if (posix_memalign(&memory, kAlignment, kZone == 0 ? std::max<size_t>(bytes, 1) : whole) != 0) return nullptr;
  char* at = static_cast<char*>(memory) + kZone;
  memset(at, 0xff, bytes);
  if (kZone > 0) memset(at - kZone, kZoneByte, kZone), memset(at + bytes, kZoneByte, kZone);
  const QuietGuard guard(state_lock());
  allocations()[at] = {at, bytes, kind};
  return at;
}

const Allocation* find(const void* address) {
  const char* at = static_cast<const char*>(address);
  auto found = allocations().upper_bound(at);
  if (found == allocations().begin()) return nullptr;
  --found;
  return at < found->second.at + std::max<size_t>(found->second.bytes, 1) ? &found->second : nullptr;
}

cudaError_t make(void** at, size_t bytes, Memory kind) {
  if (const cudaError_t error = forbid_during_capture(); error != cudaSuccess) return result(error);
  *at = bytes == 0 ? nullptr : allocate(bytes, kind);
  return result(bytes > 0 && *at == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

/// Freeing waits for the device, as the real one does.
cudaError_t destroy(void* at, Memory kind) {
  if (at == nullptr) return cudaSuccess;
  if (const cudaError_t error = forbid_during_capture(); error != cudaSuccess) return result(error);
  for (int device = 0; device < knobs().devices; ++device) await_device(device);
  {
    const QuietGuard guard(state_lock());
    const auto found = allocations().find(static_cast<char*>(at));
    if (found == allocations().end() || found->second.kind != kind) return result(cudaErrorInvalidValue);
    check(found->second, "it was freed");
    allocations().erase(found);
  }
  free(static_cast<char*>(at) - kZone);
  return cudaSuccess;
}

/// Whether a pointer may be what the kind of a copy says it is.
bool fits(Memory memory, bool device) { return device == (memory == Memory::Device); }

bool valid_kind(cudaMemcpyKind kind, Memory to, Memory from) {
  if (kind == cudaMemcpyDefault) return true;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  return fits(to, to_device) && fits(from, from_device);
}

struct Copy {
  void* to;
  size_t to_pitch;
  const void* from;
  size_t from_pitch, width, height;
};

/// Copies of pageable memory are not asynchronous.
cudaError_t copy(const Copy& c, cudaMemcpyKind kind, cudaStream_t stream, bool wait) {
  if (c.width == 0 || c.height == 0) return cudaSuccess;
  const Memory to = kind_of(c.to), from = kind_of(c.from);
  if (!valid_kind(kind, to, from)) return result(cudaErrorInvalidValue);
  const bool pageable = (to == Memory::Unknown || from == Memory::Unknown) && !is_capturing(stream);
  const auto work = [c](Operation&) {
    for (size_t row = 0; row < c.height; ++row)
      memcpy(static_cast<char*>(c.to) + row * c.to_pitch, static_cast<const char*>(c.from) + row * c.from_pitch,
             c.width);
    return true;
  };
  return enqueue(stream, work, wait || pageable);
}

}  // namespace

void check_red_zones(const char* after) {
  if (kZone == 0 || kThreadSanitizer) return;
  const QuietGuard guard(state_lock());
  for (const auto& [at, allocation] : allocations()) check(allocation, after);
}

Memory kind_of(const void* at) {
  const QuietGuard guard(state_lock());
  const Allocation* found = find(at);
  return found == nullptr ? Memory::Unknown : found->kind;
}

}  // namespace weft::emulation

using namespace weft::emulation;

cudaError_t cudaMalloc(void** at, size_t bytes) { return make(at, bytes, Memory::Device); }
cudaError_t cudaFree(void* at) { return destroy(at, Memory::Device); }
cudaError_t cudaMallocHost(void** at, size_t bytes, unsigned) { return make(at, bytes, Memory::Pinned); }
cudaError_t cudaHostAlloc(void** at, size_t bytes, unsigned) { return make(at, bytes, Memory::Pinned); }
cudaError_t cudaFreeHost(void* at) { return destroy(at, Memory::Pinned); }

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return result(kind_of(host) == Memory::Pinned ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaHostRegister(void* at, size_t bytes, unsigned) {
  const QuietGuard guard(state_lock());
  allocations()[static_cast<char*>(at)] = {static_cast<char*>(at), bytes, Memory::Registered};
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* at) {
  const QuietGuard guard(state_lock());
  return result(allocations().erase(static_cast<char*>(at)) == 1 ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = size_t{64} << 30;
  size_t used = 0;
  const QuietGuard guard(state_lock());
  for (const auto& [at, allocation] : allocations()) used += allocation.kind == Memory::Device ? allocation.bytes : 0;
  *free = *total - std::min(*total, used);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t error = forbid_during_capture(); error != cudaSuccess) return result(error);
  return copy({to, bytes, from, bytes, bytes, 1}, kind, nullptr, true);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy({to, bytes, from, bytes, bytes, 1}, kind, stream, false);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return result(cudaErrorInvalidValue);
  return copy({to, to_pitch, from, from_pitch, width, height}, kind, stream, false);
}

cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  return enqueue(stream, [=](Operation&) { return memset(at, value, bytes), true; });
}

cudaError_t cudaMemset(void* at, int value, size_t bytes) {
  if (const cudaError_t error = forbid_during_capture(); error != cudaSuccess) return result(error);
  return cudaMemsetAsync(at, value, bytes, nullptr);
}
