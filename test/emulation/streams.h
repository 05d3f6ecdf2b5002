// Streams, events and graphs, to which CUDA handles point.
#pragma once
#include <string>

#include "scheduler.h"

/// A recorded operation of a stream.
struct CUgraphNode_st {
  std::shared_ptr<const weft::emulation::Work> work;
  std::shared_ptr<const weft::emulation::Launch> kernel;
  std::vector<int> after;  // earlier nodes
};

struct CUgraph_st {
  std::vector<CUgraphNode_st> nodes;
};

struct CUgraphExec_st {
  std::vector<CUgraphNode_st> nodes;
  weft::emulation::Operation* last = nullptr;  // the end of its last launch
};

namespace weft::emulation {

inline constexpr int kDevices = 8;  // at most

struct Capture {
  cudaStream_t origin;
  cudaStreamCaptureMode mode;
  uint64_t thread;
  CUgraph_st* graph;
  std::vector<cudaStream_t> streams;
  bool valid = true, ended = false;
};

}  // namespace weft::emulation

struct CUstream_st {
  int device = 0;
  bool blocking = true;  // waits for the default stream, and it for this one
  weft::emulation::Operation* last = nullptr;
  weft::emulation::Capture* capture = nullptr;
  std::vector<int> captured;  // nodes that the next one comes after
};

struct CUevent_st {
  weft::emulation::Operation* operation = nullptr;  // of the last record
  weft::emulation::Capture* capture = nullptr;      // of a record in a capture
  std::vector<int> captured;
};

namespace weft::emulation {

/// Operations of several streams that come one after another, as they were issued: those of one communicator.
struct Chain {
  Operation* last = nullptr;
  const Capture* capture = nullptr;  // of `node`
  int node = 0;
};

/// Appends to a stream, or to its capture. `wait`: the calling thread waits for it too.
cudaError_t enqueue(cudaStream_t stream, Work work, bool wait = false, Chain* chain = nullptr);
/// Keeps the error for cudaGetLastError.
cudaError_t result(cudaError_t error);
/// The stream that a null handle means on the current device.
cudaStream_t resolve(cudaStream_t stream);
int current_device();
bool is_capturing(cudaStream_t stream);
/// An error if a capture that is under way forbids a call that is not of a stream.
cudaError_t forbid_during_capture();
/// Waits for everything that the streams of a device were asked so far.
void await_device(int device);

}  // namespace weft::emulation
