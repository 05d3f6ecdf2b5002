// Queries about devices, versions and errors, and the environment variables that set the number of devices and their
// behaviour.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "streams.h"

namespace weft::emulation {

static Knobs read_knobs() {
  Knobs out;
  const auto number = [](const char* name, int64_t otherwise) {
    const char* text = getenv(name);
    return text == nullptr ? otherwise : strtoll(text, nullptr, 10);
  };
  out.seed = uint64_t(number("WEFT_EMULATION_SEED", 1));
  out.workers = int(number("WEFT_EMULATION_WORKERS", 0));
  out.nccl = number("WEFT_EMULATION_NCCL", 0) != 0;
  out.processes = number("WEFT_EMULATION_PROCESSES", 0) != 0;
  out.devices = int(std::clamp<int64_t>(number("WEFT_EMULATION_DEVICES", out.nccl ? kDevices : 1), 0, kDevices));
  out.driver = int(number("WEFT_EMULATION_DRIVER", CUDART_VERSION));
  out.sms = int(number("WEFT_EMULATION_SMS", out.sms));
  out.delay_us = int(number("WEFT_EMULATION_DELAY_US", 0));
  out.nvlink = number("WEFT_EMULATION_NVLINK", 1) != 0;
  if (const char* order = getenv("WEFT_EMULATION_ORDER")) {
    if (strcmp(order, "fixed") != 0 && strcmp(order, "random") != 0)
      fail("WEFT_EMULATION_ORDER is '%s'; random and fixed are known", order);
    out.order = strcmp(order, "fixed") == 0 ? Order::Fixed : Order::Random;
  }
  return out;
}

Knobs& knobs() {
  static Knobs it = read_knobs();
  return it;
}

}  // namespace weft::emulation

using namespace weft::emulation;

static constexpr struct {
  cudaError_t code;
  const char *name, *text;
} kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {cudaErrorCooperativeLaunchTooLarge, "cudaErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
};

const char* cudaGetErrorName(cudaError_t error) {
  for (const auto& known : kErrors)
    if (known.code == error) return known.name;
  return "cudaErrorUnknown";
}

const char* cudaGetErrorString(cudaError_t error) {
  for (const auto& known : kErrors)
    if (known.code == error) return known.text;
  return "unknown error";
}

cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = knobs().driver, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = knobs().devices;
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= knobs().devices) return result(cudaErrorInvalidDevice);
  *properties = {};
  strcpy(properties->name, "CPU emulation");
  properties->totalGlobalMem = size_t{64} << 30;
  properties->sharedMemPerBlock = 48 << 10;
  properties->regsPerBlock = 65536, properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024, properties->maxThreadsPerMultiProcessor = 2048;
  properties->major = 9, properties->multiProcessorCount = knobs().sms;
  properties->canMapHostMemory = 1, properties->cooperativeLaunch = 1;
  properties->l2CacheSize = 50 << 20, properties->pciBusID = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device < 0 || device >= knobs().devices) return result(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = knobs().sms;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      break;
    case cudaDevAttrCooperativeLaunch:
      *value = 1;
      break;
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) { return *can = device != peer, cudaSuccess; }
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return result(peer == current_device() || peer >= knobs().devices ? cudaErrorInvalidDevice : cudaSuccess);
}
