// The implementation of weft/cuda.h: a program's calls are issued to the stream of their step.
#include <cstring>

#include "cuda_state.h"
#include "finite_watch.h"
#include "kernels.h"

namespace weft {

Rank::Rank(CudaState& state)
    : RankSurface(state.rank, state.own, state.window, state.weights),
      state_(state),
      invocation_(&state.words->invocation) {
  watch_ = state.finite_watch.get();
}

bool Rank::enter(const Step& step, int64_t index) {
  state_.enter(step, index, block_);
  return true;
}
void Rank::leave() { state_.leave(); }

/// An event suffices between streams. A signal that a kernel itself signals or waits for is a flag.
static bool is_event(const Signal& signal) { return signal.group.naxes == 0 && !signal.in_kernel; }

/// A graph does not promise that two of its branches run at once, as a kernel needs that waits for another branch.
static void keep_streams(CudaState& state, const Signal& signal) {
  if (signal.in_kernel) state.leave_capture();
}

bool Rank::evaluates() const { return state_.evaluates; }

void Rank::signal(const Signal& signal, int i) {
  if (is_event(signal)) return state_.record_signal(signal.slot + i);
  keep_streams(state_, signal);
  signal_flags(state_.stream(), state_.peers(members_of(signal.group, rank)), signal, i);
}

void Rank::wait(const Signal& signal, int i) {
  keep_streams(state_, signal);
  if (is_event(signal))
    state_.wait_for_signal(signal.slot + i);
  else
    wait_for_flags(state_.stream(), state_.peers(members_of(signal.group, rank)), signal, i);
  state_.note_waited();
}

void Rank::barrier(const Group& group) { state_.transport().barrier(group); }

void Rank::prepare(const Group& group) { state_.prepare(group); }

/// For a kernel that reaches other ranks' memory; a rank alone in its group signals flags for its own streams.
Peers Rank::peers(const Group& group) {
  if (group.size() > 1) state_.note_exchange();
  return state_.peers(members_of(group, rank));
}

/// No kernel of a device has strings.
void Rank::refuse_request(const Step&) { throw; }

IndexCheck Rank::indices_of(const char* node, int layer) {
  return {state_.fault.get(), state_.number_of_checked(node, layer)};
}

void Rank::start(const KernelEntry& kernel, Grid grid, void** arguments) {
  if (grid.blocks > 0) launch_kernel(state_.stream(), kernel, grid, arguments);
}

/// Refused where not all blocks fit at once.
void Rank::start_resident(const KernelEntry& kernel, Grid grid, void** arguments) {
  if (grid.blocks > unsigned{kMaxPeerBlocks})
    fail(kBug, "a kernel that waits for peers has %u blocks; %d is the most", grid.blocks, kMaxPeerBlocks);
  launch_kernel(state_.stream(), kernel, grid, arguments, state_.sharers);
}

void Rank::copy_bytes(void* to, const void* from, int64_t bytes) {
  if (bytes == 0 || to == from) return;
  check_cuda(cudaMemcpyAsync(to, from, size_t(bytes), cudaMemcpyDeviceToDevice, state_.stream()), "a copy");
}

void Rank::reduce_into(ReduceOp op, DType dtype, void* total, const void* part, int64_t count, bool first) {
  const Box line(line_of(count).dims);
  const Sources sources = {{first ? part : total, part}, first ? 1 : 2};
  reduce_box(state_.stream(), line, op, dtype, sources, total);
}

void Rank::take(const Group& g, int64_t element, const void* from, void* to, const Exchange& e) {
  const int me = g.index(rank);
  const char* source = static_cast<const char*>(from) + offset_of(g, me, e.src_by_me) * element;
  copy_box(state_.stream(), Box(clipped(e, me, me).dims), element, source, to);
}

void Rank::read(void* to, const void* at, size_t bytes) { state_.read(to, at, bytes); }

void Rank::write(void* at, const void* from, size_t bytes) {
  state_.leave_capture();
  uint64_t bits = 0;
  memcpy(&bits, from, bytes);
  store_value(state_.stream(), at, bits, int(bytes));
}

void Rank::reduce_all(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e) {
  state_.transport().reduce_all(g, op, dtype, src, dst, e);
}
void Rank::reduce_all_in_windows(const Group& g, ReduceOp op, DType dtype, int64_t src, int64_t dst,
                                 const Exchange& e) {
  reduce_all(g, op, dtype, src, window_ + dst, e);
}
void Rank::reduce_slices(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e) {
  state_.transport().reduce_slices(g, op, dtype, src, dst, e);
}
void Rank::gather(const Group& g, DType dtype, int64_t src, void* dst, const Exchange& e) {
  state_.transport().gather(g, dtype, src, dst, e);
}
void Rank::exchange(const Group& g, DType dtype, int64_t src, void* dst, const Exchange& e) {
  state_.transport().exchange(g, dtype, src, dst, e);
}
void Rank::broadcast_from(const Group& g, int root, DType dtype, int64_t src, void* dst, int64_t count) {
  state_.transport().broadcast(g, root, dtype, src, dst, count);
}
void Rank::reduce_root(const Group& g, int root, ReduceOp op, DType dtype, int64_t src, void* dst, int64_t count) {
  state_.transport().reduce(g, root, op, dtype, src, dst, count);
}
void Rank::send_rows(const Transfer& t, int micro_batch, DType dtype, int64_t src) {
  state_.transport().send(t, micro_batch, dtype, src);
}
void Rank::recv_rows(const Transfer& t, int micro_batch, DType dtype, int64_t src, void* dst) {
  state_.transport().recv(t, micro_batch, dtype, src, dst);
}

}  // namespace weft
