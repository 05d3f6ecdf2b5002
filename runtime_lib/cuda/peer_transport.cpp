// Ranks that are threads of one process, or one rank alone: every window is an address here. A collective is: all have
// come, pull by kernels, all are done. Barriers are on the host, streams are ordered by events; no kernel waits.
#include <algorithm>

#include "cuda_state.h"
#include "kernels.h"

namespace weft {

Process::~Process() {
  for (const auto& [key, event] : events) cudaEventDestroy(event);
}

cudaEvent_t Process::event(const EventKey& key) {
  const std::lock_guard lock(mutex);
  cudaEvent_t& event = events[key];
  if (event == nullptr) check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
  return event;
}

namespace {

class PeerTransport final : public Transport {
 public:
  PeerTransport(CudaState& state, Process& process) : state_(state), process_(process) {}

  char* make_window(int64_t bytes) override {
    window_ = device_bytes(bytes, "the window");
    return window_.get();
  }
  void open_windows() override;
  char* window_of(int rank) override { return windows_[size_t(rank)]; }
  void prepare_sum(DType dtype, const Exchange& e) override { sum_of(dtype, e); }
  void barrier(const Group& g) override { pass_barrier(g, Process::When::Ready); }
  void reduce_all(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e) override;
  void reduce_slices(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e) override;
  void gather(const Group& g, DType dtype, int64_t src, void* dst, const Exchange& e) override {
    pull(g, dtype, src, dst, e);
  }
  void exchange(const Group& g, DType dtype, int64_t src, void* dst, const Exchange& e) override {
    pull(g, dtype, src, dst, e);
  }
  void broadcast(const Group& g, int root, DType dtype, int64_t src, void* dst, int64_t count) override;
  void reduce(const Group& g, int root, ReduceOp op, DType dtype, int64_t src, void* dst, int64_t count) override;
  void send(const Transfer& t, int micro_batch, DType dtype, int64_t src) override;
  void recv(const Transfer& t, int micro_batch, DType dtype, int64_t src, void* dst) override;

 private:
  void pass_barrier(const Group& g, Process::When when);
  void host_barrier(const std::vector<int>& members);
  void pull(const Group& g, DType dtype, int64_t src, void* dst, const Exchange& e);
  void pull_from(const Group& g, int peer, int64_t element, int64_t src, void* dst, const Exchange& e);
  Sources sources_of(const Group& g, int64_t offset) const;
  /// Where a sum is made before it is stored.
  char* sum_of(DType dtype, const Exchange& e) { return state_.scratch(count_of(e.dims) * element_bytes(dtype)); }
  char* at(int rank, int64_t offset) const { return windows_[size_t(rank)] + offset; }

  CudaState& state_;
  Process& process_;
  DeviceBytes window_;
  std::vector<char*> windows_;  // by rank
};

/// Devices of one process reach each other's memory once that is enabled.
void enable_peers(int device) {
  int devices = 0;
  check_cuda(cudaGetDeviceCount(&devices), "the devices");
  for (int other = 0; other < devices; ++other) {
    int can = 0;
    if (other == device || cudaDeviceCanAccessPeer(&can, device, other) != cudaSuccess || can == 0) continue;
    const cudaError_t error = cudaDeviceEnablePeerAccess(other, 0);
    if (error != cudaErrorPeerAccessAlreadyEnabled) check_cuda(error, "access to another device");
  }
  cudaGetLastError();
}

void PeerTransport::open_windows() {
  if (state_.world.shape.ranks > 1) enable_peers(state_.device);
  {
    const std::lock_guard lock(process_.mutex);
    process_.windows[size_t(state_.rank)] = window_.get();
  }
  state_.barrier();
  windows_ = process_.windows;  // complete, and never changed again
}

/// Both ranks of a pair count their barriers on a stream.
void PeerTransport::host_barrier(const std::vector<int>& members) {
  World& world = state_.world;
  const int stream = state_.stream_number(), me = state_.rank;
  std::vector<uint32_t>& ticks = state_.ticks[size_t(stream)];
  for (const int peer : members)
    if (peer != me) world.signal(me, world.tick(me, stream, peer), ++ticks[size_t(peer)]);
  state_.set_awaited(Awaited::OtherRanks);
  for (const int peer : members)
    if (peer != me && !world.wait(peer, world.tick(peer, stream, me), ticks[size_t(peer)], state_.options.timeout))
      state_.time_out_here(text("rank %d at its collective", peer));
  state_.set_awaited(Awaited::Nothing);
}

/// After the barrier on the host all events are recorded. One is recorded again only two barriers later.
void PeerTransport::pass_barrier(const Group& g, Process::When when) {
  if (g.size() == 1) return;
  const std::vector<int> members = members_of(g, state_.rank);
  const int number = state_.stream_number();
  const auto event_of = [&](int rank) { return process_.event({rank, number, members, when}); };
  check_cuda(cudaEventRecord(event_of(state_.rank), state_.stream()), "an event");
  host_barrier(members);
  for (const int peer : members)
    if (peer != state_.rank)
      check_cuda(cudaStreamWaitEvent(state_.stream(), event_of(peer), 0), "waiting for an event");
}

Sources PeerTransport::sources_of(const Group& g, int64_t offset) const {
  if (g.size() > kMaxPeers) fail(kUnsupported, "collectives of %d ranks in one process are not supported", g.size());
  Sources out;
  out.count = g.size();
  for (int p = 0; p < g.size(); ++p) out.at[p] = at(g.peer(state_.rank, p), offset);
  return out;
}

/// The result may be a source: it is written when all have read.
void PeerTransport::reduce_all(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e) {
  char* const sum = sum_of(dtype, e);
  pass_barrier(g, Process::When::Ready);
  reduce_box(state_.stream(), Box(packed(e, Side::Dst).dims), op, dtype, sources_of(g, src), sum);
  pass_barrier(g, Process::When::Done);
  copy_box(state_.stream(), Box(packed(e, Side::Src).dims), element_bytes(dtype), sum, dst);
}

void PeerTransport::reduce_slices(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e) {
  const int me = g.index(state_.rank);
  const int64_t first = src + offset_of(g, me, e.src_by_me) * element_bytes(dtype);
  pass_barrier(g, Process::When::Ready);
  reduce_box(state_.stream(), Box(clipped(e, me, me).dims), op, dtype, sources_of(g, first), dst);
  pass_barrier(g, Process::When::Done);
}

void PeerTransport::reduce(const Group& g, int root, ReduceOp op, DType dtype, int64_t src, void* dst, int64_t count) {
  pass_barrier(g, Process::When::Ready);
  if (g.index(state_.rank) == root)
    reduce_box(state_.stream(), Box(line_of(count).dims), op, dtype, sources_of(g, src), dst);
  pass_barrier(g, Process::When::Done);
}

void PeerTransport::pull_from(const Group& g, int peer, int64_t element, int64_t src, void* dst, const Exchange& e) {
  const int me = g.index(state_.rank);
  const char* from = at(g.peer(state_.rank, peer), src) + offset_of(g, me, e.src_by_me) * element;
  char* to = static_cast<char*>(dst) + offset_of(g, peer, e.dst_by_peer) * element;
  if (from != to) copy_box(state_.stream(), Box(clipped(e, me, peer).dims), element, from, to);
}

void PeerTransport::pull(const Group& g, DType dtype, int64_t src, void* dst, const Exchange& e) {
  const int n = g.size(), me = g.index(state_.rank);
  pass_barrier(g, Process::When::Ready);
  for (int step = 0; step < n; ++step) pull_from(g, (me + step) % n, element_bytes(dtype), src, dst, e);
  pass_barrier(g, Process::When::Done);
}

void PeerTransport::broadcast(const Group& g, int root, DType dtype, int64_t src, void* dst, int64_t count) {
  pass_barrier(g, Process::When::Ready);
  pull_from(g, root, element_bytes(dtype), src, dst, line_of(count));
  pass_barrier(g, Process::When::Done);
}

/// One message, from the sender's window part to a buffer.
void pull_message(cudaStream_t stream, const Message& m, int64_t element, const char* src, void* dst) {
  copy_box(stream, Box(m.dims), element, src + m.src * element, static_cast<char*>(dst) + m.dst * element);
}

// Sender and receiver may issue in different orders, so they wait on the device, for flags.

/// The other ends of this rank's rows, each once.
std::vector<int> partners(const Transfer& t, int Message::*mine, int Message::*theirs, int rank) {
  std::vector<int> out;
  for (const Message& m : t.messages)
    if (m.*mine == rank && std::find(out.begin(), out.end(), m.*theirs) == out.end()) out.push_back(m.*theirs);
  return out;
}

void PeerTransport::send(const Transfer& t, int micro_batch, DType, int64_t) {
  const std::vector<int> receivers = partners(t, &Message::from, &Message::to, state_.rank);
  if (receivers.empty()) return;
  const Peers peers = state_.peers(receivers);
  const Signal ready{t.slot, t.micro_batches}, pulled{t.slot + t.micro_batches, t.micro_batches};
  signal_flags(state_.stream(), peers, ready, micro_batch);
  wait_for_flags(state_.stream(), peers, pulled, micro_batch);
}

void PeerTransport::recv(const Transfer& t, int micro_batch, DType dtype, int64_t src, void* dst) {
  const std::vector<int> senders = partners(t, &Message::to, &Message::from, state_.rank);
  if (senders.empty()) return;
  const Peers peers = state_.peers(senders);
  const Signal ready{t.slot, t.micro_batches}, pulled{t.slot + t.micro_batches, t.micro_batches};
  wait_for_flags(state_.stream(), peers, ready, micro_batch);
  for (const Message& m : t.messages)
    if (m.to == state_.rank) pull_message(state_.stream(), m, element_bytes(dtype), at(m.from, src), dst);
  signal_flags(state_.stream(), peers, pulled, micro_batch);
}

}  // namespace

std::unique_ptr<Transport> peer_transport(CudaState& state, Process& process) {
  return std::make_unique<PeerTransport>(state, process);
}

}  // namespace weft
