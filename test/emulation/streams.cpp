#include "streams.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>

namespace weft::emulation {

namespace {

CUstream_st default_streams[kDevices];
std::vector<cudaStream_t> all_streams;
std::vector<Capture*> captures;
std::deque<Capture> all_captures;  // the ended ones too: events may name them
thread_local cudaError_t last_error = cudaSuccess;
thread_local int the_device = 0;
thread_local char thread_mark;

uint64_t this_thread() { return reinterpret_cast<uint64_t>(&thread_mark); }

bool is_default(cudaStream_t stream) { return stream >= default_streams && stream < default_streams + kDevices; }

void replace(Operation*& kept, Operation* by) {
  release(kept);
  kept = by;
}

/// The predecessors of a stream's next operation: its last one, and for blocking streams the default stream's.
std::vector<Operation*> predecessors(cudaStream_t stream) {
  std::vector<Operation*> out = {stream->last};
  if (is_default(stream)) {
    for (const cudaStream_t other : all_streams)
      if (other->blocking && other->device == stream->device) out.push_back(other->last);
  } else if (stream->blocking) {
    out.push_back(default_streams[stream->device].last);
  }
  return out;
}

/// With state_lock() held. The stream keeps the operation as its last.
void append(cudaStream_t stream, Operation* operation, std::vector<Operation*> after) {
  operation->device = stream->device;
  submit(*operation, after);
  replace(stream->last, operation);
}

cudaError_t record(cudaStream_t stream, CUgraphNode_st node, Chain* chain) {
  Capture* capture = stream->capture;
  if (!capture->valid) return cudaErrorStreamCaptureInvalidated;
  node.after = stream->captured;
  if (chain != nullptr && chain->capture == capture) node.after.push_back(chain->node);
  std::vector<CUgraphNode_st>& nodes = capture->graph->nodes;
  const int index = int(nodes.size());
  nodes.push_back(std::move(node));
  stream->captured = {index};
  if (chain != nullptr) chain->capture = capture, chain->node = index;
  return cudaSuccess;
}

cudaError_t invalidate(cudaStream_t stream, cudaError_t error) {
  stream->capture->valid = false;
  return error;
}

/// A caller that sees completion is ordered after the operation, as if it had waited.
cudaError_t query(Operation* operation) {
  if (operation == nullptr) return cudaSuccess;
  if (!operation->done.load(std::memory_order_acquire)) return cudaErrorNotReady;
  tsan_acquire(&operation->completed);
  return cudaSuccess;
}

/// The default stream may not be used while a stream that waits for it is captured.
bool breaks_a_capture(cudaStream_t stream) {
  bool broken = false;
  if (is_default(stream))
    for (Capture* capture : captures)
      for (const cudaStream_t captured : capture->streams)
        if (captured->blocking && captured->device == stream->device) capture->valid = false, broken = true;
  return broken;
}

cudaError_t add(cudaStream_t stream, CUgraphNode_st node, Chain* chain = nullptr, Operation** added = nullptr) {
  stream = resolve(stream);
  const QuietGuard guard(state_lock());
  if (breaks_a_capture(stream)) return cudaErrorStreamCaptureInvalidated;
  if (stream->capture != nullptr) return record(stream, std::move(node), chain);
  Operation* operation = new Operation;
  operation->work = std::move(node.work), operation->kernel = std::move(node.kernel);
  std::vector<Operation*> after = predecessors(stream);
  if (chain != nullptr) after.push_back(chain->last);
  append(stream, operation, after);
  if (chain != nullptr) retain(operation), replace(chain->last, operation);
  if (added != nullptr) retain(*added = operation);
  return cudaSuccess;
}

}  // namespace

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

int current_device() { return the_device; }

cudaStream_t resolve(cudaStream_t stream) {
  if (stream != nullptr) return stream;
  default_streams[the_device].device = the_device;
  return &default_streams[the_device];
}

bool is_capturing(cudaStream_t stream) {
  const QuietGuard guard(state_lock());
  return resolve(stream)->capture != nullptr;
}

cudaError_t forbid_during_capture() {
  const QuietGuard guard(state_lock());
  cudaError_t error = cudaSuccess;
  for (Capture* capture : captures) {
    const bool here = capture->thread == this_thread();
    if (capture->mode == cudaStreamCaptureModeRelaxed) continue;
    if (capture->mode == cudaStreamCaptureModeThreadLocal && !here) continue;
    capture->valid = false;
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error;
}

cudaError_t enqueue(cudaStream_t stream, Work work, bool wait, Chain* chain) {
  CUgraphNode_st node;
  if (work) node.work = std::make_shared<const Work>(std::move(work));
  Operation* operation = nullptr;
  const cudaError_t error = add(stream, std::move(node), chain, wait ? &operation : nullptr);
  if (operation != nullptr) {
    await(*operation);
    release(operation);
  }
  return result(error);
}

cudaError_t launch(Launch launch, cudaStream_t stream) {
  const uint64_t threads = uint64_t{launch.block.x} * launch.block.y * launch.block.z;
  const uint64_t blocks = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  if (threads == 0 || threads > 1024 || blocks == 0 || launch.grid.x > 0x7fffffff || launch.grid.y > 65535 ||
      launch.grid.z > 65535)
    return result(cudaErrorInvalidConfiguration);
  if (launch.resident && int64_t(blocks) > int64_t{resident_on_one(threads)} * knobs().sms)
    return result(cudaErrorCooperativeLaunchTooLarge);
  CUgraphNode_st node;
  node.kernel = std::make_shared<const Launch>(std::move(launch));
  return result(add(stream, std::move(node)));
}

cudaError_t resident_blocks(int* blocks, unsigned threads, size_t) {
  *blocks = resident_on_one(threads);
  return cudaSuccess;
}

void await_device(int device) {
  std::vector<Operation*> pending;
  {
    const QuietGuard guard(state_lock());
    pending.push_back(default_streams[device].last);
    for (const cudaStream_t stream : all_streams)
      if (stream->device == device) pending.push_back(stream->last);
    for (Operation* operation : pending) retain(operation);
  }
  for (Operation* operation : pending) {
    if (operation == nullptr) continue;
    await(*operation);
    release(operation);
  }
}

}  // namespace weft::emulation

using namespace weft::emulation;

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

cudaError_t cudaGetDevice(int* device) { return *device = the_device, cudaSuccess; }
cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= knobs().devices) return result(cudaErrorInvalidDevice);
  the_device = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t error = forbid_during_capture(); error != cudaSuccess) return result(error);
  await_device(the_device);
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  *stream = new CUstream_st;
  (*stream)->device = the_device;
  (*stream)->blocking = (flags & cudaStreamNonBlocking) == 0;
  const QuietGuard guard(state_lock());
  all_streams.push_back(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return *least = 0, *greatest = -5, cudaSuccess;
}

/// Its pending operations still run, as on the device.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  {
    const QuietGuard guard(state_lock());
    std::erase(all_streams, stream);
    replace(stream->last, nullptr);
  }
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  stream = resolve(stream);
  Operation* last = nullptr;
  {
    const QuietGuard guard(state_lock());
    if (stream->capture != nullptr) return result(invalidate(stream, cudaErrorStreamCaptureUnsupported));
    retain(last = stream->last);
  }
  if (last != nullptr) await(*last);
  release(last);
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  stream = resolve(stream);
  const QuietGuard guard(state_lock());
  if (stream->capture != nullptr) return result(invalidate(stream, cudaErrorStreamCaptureUnsupported));
  return query(stream->last);
}

/// Adds a point after the event to a stream, or adds the stream to the event's capture.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event == nullptr) return result(cudaErrorInvalidResourceHandle);
  stream = resolve(stream);
  const QuietGuard guard(state_lock());
  if (event->capture == nullptr) {
    if (stream->capture != nullptr) return result(invalidate(stream, cudaErrorStreamCaptureIsolation));
    if (event->operation == nullptr) return cudaSuccess;
    std::vector<Operation*> after = predecessors(stream);
    after.push_back(event->operation);
    append(stream, new Operation, after);
    return cudaSuccess;
  }
  if (event->capture->ended) return result(cudaErrorInvalidValue);
  if (stream->capture == nullptr) {
    stream->capture = event->capture;
    stream->captured.clear();
    event->capture->streams.push_back(stream);
  }
  if (stream->capture != event->capture) return result(invalidate(stream, cudaErrorStreamCaptureIsolation));
  for (const int node : event->captured)
    if (std::find(stream->captured.begin(), stream->captured.end(), node) == stream->captured.end())
      stream->captured.push_back(node);
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return enqueue(stream, [=](Operation&) { return function(data), true; });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return *event = new CUevent_st, cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return result(cudaErrorInvalidResourceHandle);
  release(event->operation);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event == nullptr) return result(cudaErrorInvalidResourceHandle);
  stream = resolve(stream);
  const QuietGuard guard(state_lock());
  if (breaks_a_capture(stream)) return result(cudaErrorStreamCaptureInvalidated);
  event->capture = stream->capture;
  event->captured = stream->captured;
  if (stream->capture != nullptr)
    return result(stream->capture->valid ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
  append(stream, new Operation, predecessors(stream));
  retain(stream->last);
  replace(event->operation, stream->last);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Operation* operation = nullptr;
  {
    const QuietGuard guard(state_lock());
    if (event->capture != nullptr) return result(cudaErrorStreamCaptureUnsupported);
    retain(operation = event->operation);
  }
  if (operation != nullptr) await(*operation);
  release(operation);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const QuietGuard guard(state_lock());
  if (event->capture != nullptr) return result(cudaErrorStreamCaptureUnsupported);
  return query(event->operation);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const QuietGuard guard(state_lock());
  if (begin->operation == nullptr || end->operation == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (!begin->operation->done.load() || !end->operation->done.load()) return cudaErrorNotReady;
  *milliseconds = float(double(end->operation->finished_ns - begin->operation->finished_ns) * 1e-6);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (stream == nullptr) return result(cudaErrorStreamCaptureUnsupported);  // as the legacy default stream
  const QuietGuard guard(state_lock());
  if (stream->capture != nullptr) return result(cudaErrorStreamCaptureUnsupported);
  stream->capture = &all_captures.emplace_back(Capture{stream, mode, this_thread(), new CUgraph_st, {stream}});
  stream->captured.clear();
  captures.push_back(stream->capture);
  return cudaSuccess;
}

/// Whether all nodes come before the ones where the capture ends.
static bool all_joined(const std::vector<CUgraphNode_st>& nodes, const std::vector<int>& ends) {
  std::vector<char> reached(nodes.size(), 0);
  for (const int end : ends) reached[size_t(end)] = 1;
  for (size_t i = nodes.size(); i-- > 0;)
    if (reached[i])
      for (const int before : nodes[i].after) reached[size_t(before)] = 1;
  return std::find(reached.begin(), reached.end(), 0) == reached.end();
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  const QuietGuard guard(state_lock());
  if (stream->capture == nullptr) return result(cudaErrorInvalidValue);
  Capture* capture = stream->capture;
  cudaError_t error = cudaSuccess;
  if (capture->origin != stream) return result(invalidate(stream, cudaErrorStreamCaptureUnmatched));
  if (!capture->valid)
    error = cudaErrorStreamCaptureInvalidated;
  else if (!all_joined(capture->graph->nodes, stream->captured))
    error = cudaErrorStreamCaptureUnjoined;
  for (const cudaStream_t captured : capture->streams) captured->capture = nullptr;
  std::erase(captures, capture);
  capture->ended = true;
  if (error == cudaSuccess)
    *graph = capture->graph;
  else
    delete capture->graph;
  return result(error);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  stream = resolve(stream);
  const QuietGuard guard(state_lock());
  *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone
            : stream->capture->valid   ? cudaStreamCaptureStatusActive
                                       : cudaStreamCaptureStatusInvalidated;
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  if (nodes != nullptr)
    for (size_t i = 0; i < std::min(*count, graph->nodes.size()); ++i) nodes[i] = &graph->nodes[i];
  else
    *count = graph->nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return *exec = new CUgraphExec_st{graph->nodes}, cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  stream = resolve(stream);
  const QuietGuard guard(state_lock());
  if (stream->capture != nullptr) return result(invalidate(stream, cudaErrorNotSupported));
  std::vector<Operation*> before = predecessors(stream), running;
  before.push_back(exec->last);
  Operation* begin = new Operation;
  append(stream, begin, before);
  retain(begin);
  for (const CUgraphNode_st& node : exec->nodes) {
    Operation* operation = new Operation;
    operation->device = stream->device;
    operation->work = node.work, operation->kernel = node.kernel;
    std::vector<Operation*> after = {begin};
    for (const int other : node.after) after.push_back(running[size_t(other)]);
    submit(*operation, after);
    running.push_back(operation);
  }
  running.push_back(begin);
  append(stream, new Operation, running);
  for (Operation* operation : running) release(operation);
  retain(stream->last);
  replace(exec->last, stream->last);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  release(exec->last);
  delete exec;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
