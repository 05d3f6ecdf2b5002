// A rank on a GPU. Each iteration issues the program's steps once, in the order of a walk over the emitted function.
// The first walk is eager. After that, unless something forbids it, a CUDA graph that was captured from a walk is
// launched instead. Host memory mirrors the device's, so that inputs and outputs are handled as on the host.
#include "cuda_state.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "finite_watch.h"
#include "kernels.h"
#include "step_text.h"
#include "variants.h"
#include "wait.h"

namespace weft {

static cudaEvent_t make_event(unsigned flags) {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, flags), "an event");
  return event;
}

/// The sizes that all programs must agree on, because windows and flags lie at the same offsets on every rank.
struct WindowShape {
  int64_t bytes = 0;
  int signals = 0, streams = 1;
};
static WindowShape window_shape(const Executable& executable) {
  WindowShape shape;
  for (const Program& program : executable.programs) {
    shape.bytes = std::max(shape.bytes, program.window_bytes);
    shape.signals = std::max(shape.signals, program.signals);
    shape.streams = std::max(shape.streams, int(program.streams.size()));
  }
  return shape;
}

CudaState::CudaState(const Executable& e, const Program& p, World& w, int r, const char* i, std::string_view m,
                     const RankOptions& o, const DevicePlace& place, Process& process)
    : RankBase(e, p, w, r, i, m, o),
      device(place.device),
      sharers(place.sharers),
      own_mirror_(Mapping::zeroed(p.own_bytes)),
      window_mirror_(Mapping::zeroed(p.window_bytes)) {
  check_cuda(cudaSetDevice(device), "the device");
  const size_t count = std::max<size_t>(1, p.streams.size());
  streams.resize(count);
  for (cudaStream_t& stream : streams)
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  for (size_t s = 0; s < count; ++s) joins_.push_back(make_event(cudaEventDisableTiming));
  fork_ = make_event(cudaEventDisableTiming);
  base_ = make_event(cudaEventDefault);
  ticks.assign(count, std::vector<uint32_t>(size_t(w.shape.ranks), 0));
  scratch_of_.resize(count);
  progress_seen_.assign(count, {0, Patience(o.timeout)});
  traces_.resize(count);
  walks_of_.resize(variant_count(e));
  signal_events_.resize(size_t(p.signals));
  signal_walks_.resize(size_t(p.signals));
  fault = pinned<Fault>(1);
  progress_ = pinned<uint32_t>(count);
  landing_ = pinned<char>(8);

  own_bytes_ = device_bytes(p.own_bytes, "own memory");
  own = own_bytes_.get();
  upload_weights();
  const WindowShape shape = window_shape(e);
  signals_ = shape.signals;
  flag_slots_ = shape.signals + shape.streams * kMaxPeerBlocks;
  flags_ = round_up(shape.bytes, kAlign);
  const int64_t inbox = int64_t{flag_slots_} * w.shape.ranks * int64_t{sizeof(uint32_t)};
  const int64_t counters = int64_t(count) * counters_of_stream() * int64_t{sizeof(uint32_t)};
  word_bytes_ = device_bytes(kAlign + counters, "counters");
  words = reinterpret_cast<IterationWords*>(word_bytes_.get());
  transport_ = w.shape.ranks == 1 || o.in_process ? peer_transport(*this, process) : nccl_transport(*this);
  window = transport_->make_window(flags_ + inbox);
  check_cuda(cudaMemsetAsync(window + flags_, 0, size_t(inbox), streams[0]), "clearing flags");
  check_cuda(cudaMemsetAsync(word_bytes_.get(), 0, size_t(kAlign + counters), streams[0]), "clearing counters");
  check_cuda(cudaStreamSynchronize(streams[0]), "clearing flags");
  start_library();
  if (o.check_nan)
    finite_watch = std::make_unique<FiniteWatch>(
        count, [this](int64_t bytes, const char* what) { return kept_bytes(bytes, what); });
  transport_->open_windows();
}

/// Called before any rank goes on. If another rank in the same context has a kernel that waits for this rank, starting
/// a library or allocating memory may wait for that kernel.
void CudaState::start_library() {
  if (make_contractions == nullptr) return;
  contractions = make_contractions();
  for (int s = 0; s < int(program.streams.size()); ++s)
    if (options.in_process && world.shape.ranks > 1 && program.streams[size_t(s)].parallel)
      scratch_of(s, kContractionScratch);
}

CudaState::~CudaState() {
  cudaSetDevice(device);
  for (const cudaStream_t stream : streams) cudaStreamSynchronize(stream);
  for (const Walks& walks : walks_of_)
    if (walks.graph != nullptr) cudaGraphExecDestroy(walks.graph);
  contractions.reset();
  transport_.reset();
  for (const cudaEvent_t event : joins_) cudaEventDestroy(event);
  for (const cudaEvent_t event : signal_events_)
    if (event != nullptr) cudaEventDestroy(event);
  cudaEventDestroy(fork_);
  cudaEventDestroy(base_);
  for (const cudaStream_t stream : streams) cudaStreamDestroy(stream);
}

// Weights are copied to the device once; the mapped file is not needed after that.
void CudaState::upload_weights() {
  const int64_t bytes = widest.image_bytes();
  weight_bytes_ = device_bytes(bytes, "weights");
  weights = weight_bytes_.get();
  if (bytes > 0) copy_now(weight_bytes_.get(), image, bytes, cudaMemcpyHostToDevice);
}

DeviceMemory CudaState::device_memory() const {
  const int64_t inbox = int64_t{flag_slots_} * world.shape.ranks * int64_t{sizeof(uint32_t)};
  return {widest.own_bytes, flags_ + inbox, widest.image_bytes(), scratch_total_};
}

/// Returns when the bytes have arrived; a copy from pageable memory by itself does not wait for that.
void CudaState::copy_now(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return;
  check_cuda(cudaMemcpyAsync(to, from, size_t(bytes), kind, streams[0]), "a copy");
  check_cuda(cudaStreamSynchronize(streams[0]), "a copy");
}

static char* device_at(const CudaState& state, const Range& range) {
  return (range.in_window ? state.window : state.own) + range.offset;
}

char* CudaState::at(const Range& range) const {
  return (range.in_window ? window_mirror_ : own_mirror_).data() + range.offset;
}
void CudaState::flush(const Range& range) {
  copy_now(device_at(*this, range), at(range), range.bytes, cudaMemcpyHostToDevice);
}
void CudaState::fetch(const Range& range) {
  copy_now(at(range), device_at(*this, range), range.bytes, cudaMemcpyDeviceToHost);
}
void CudaState::poison(const std::vector<Range>& keep) {
  for (const Range& range : keep) fetch(range);
  if (widest.own_bytes > 0) check_cuda(cudaMemsetAsync(own, 0xff, size_t(widest.own_bytes), streams[0]), "poisoning");
  if (widest.window_bytes > 0)
    check_cuda(cudaMemsetAsync(window, 0xff, size_t(widest.window_bytes), streams[0]), "poisoning");
  check_cuda(cudaStreamSynchronize(streams[0]), "poisoning");
  for (const Range& range : keep) flush(range);
}

Oddity CudaState::first_nan() const { return finite_watch ? finite_watch->first(NumberKind::NaN) : Oddity{}; }
Oddity CudaState::first_infinity() const { return finite_watch ? finite_watch->first(NumberKind::Infinity) : Oddity{}; }

DeviceBytes CudaState::kept_bytes(int64_t bytes, const char* what) {
  scratch_total_ += bytes;
  return device_bytes(bytes, what);
}

/// Memory of the current stream. A larger piece replaces a smaller one, which is kept because kernels may still
/// use it.
char* CudaState::scratch(int64_t bytes) { return scratch_of(stream_number(), bytes); }

char* CudaState::scratch_of(int stream, int64_t bytes) {
  auto& [at, size] = scratch_of_[size_t(stream)];
  if (bytes <= size) return at;
  scratch_.push_back(kept_bytes(bytes, "scratch memory"));
  at = scratch_.back().get();
  size = bytes;
  return at;
}

int CudaState::stream_number() const {
  if (open_.empty()) fail(kBug, "the program launches outside of steps");
  return walks().steps[size_t(open_.back())].step.stream;
}

void CudaState::enter_step(const Step& step, int64_t index, const BlockRun& block) {
  open_.push_back(int(walks().steps.size()));
  walks().steps.push_back({step, index, block});
}

// Notes that a step begins; for --trace an event of the device takes its time.
void CudaState::enter(const Step& step, int64_t index, const BlockRun& block) {
  enter_step(step, index, block);
  world.set_status(rank, step.stream, step, index);
  if (!options.stall.empty()) {
    step_names_.insert(name_of(step));
    if (options.stall == name_of(step)) stall_in(step);
  }
  if (finite_watch) finite_watch->begin_step(step.stream, stream());
  if (!options.trace) return;
  IssuedStep& issued = walks().steps.back();
  issued.begin = make_event(cudaEventDefault);
  issued.end = make_event(cudaEventDefault);
  check_cuda(cudaEventRecord(issued.begin, stream()), "an event");
}

void CudaState::note_waited() {
  if (options.trace && !open_.empty())
    check_cuda(cudaEventRecord(walks().steps[size_t(open_.back())].begin, stream()), "an event");
}

void CudaState::note_exchange() {
  if (!open_.empty()) walks().steps[size_t(open_.back())].communicates = true;
}

void CudaState::leave() {
  if (finite_watch) finite_watch->end_step(*current_step());
  if (options.trace) check_cuda(cudaEventRecord(walks().steps[size_t(open_.back())].end, stream()), "an event");
  leave_step();
}

/// A signal between streams of this rank. Outside of steps it applies to all streams.
void CudaState::record_signal(int slot) {
  cudaEvent_t& event = signal_events_[size_t(slot)];
  if (event == nullptr) event = make_event(cudaEventDisableTiming);
  if (open_.empty()) join(streams[0]);
  check_cuda(cudaEventRecord(event, open_.empty() ? streams[0] : stream()), "an event");
  signal_walks_[size_t(slot)] = walks_;
}

/// CUDA lets a stream pass an event that was never recorded, hence the check.
void CudaState::wait_for_signal(int slot) {
  if (signal_walks_[size_t(slot)] != walks_)
    fail(kBug, "step %s waits for a signal that no step before it sets",
         open_.empty() ? "(none)" : current_step()->name);
  const cudaEvent_t event = signal_events_[size_t(slot)];
  if (!open_.empty()) return check_cuda(cudaStreamWaitEvent(stream(), event, 0), "waiting for an event");
  for (const cudaStream_t s : streams) check_cuda(cudaStreamWaitEvent(s, event, 0), "waiting for an event");
}

Peers CudaState::peers(const std::vector<int>& members) {
  if (members.size() > size_t{kMaxPeers})
    fail(kUnsupported, "kernels that reach %zu ranks are not supported: %d is the most", members.size(), kMaxPeers);
  const int number = stream_number();
  Peers out = {};
  out.size = int(members.size());
  out.rank = rank;
  out.world = world.shape.ranks;
  out.step = open_.back();
  out.barrier_slot = signals_ + number * kMaxPeerBlocks;
  out.index = -1;
  for (int p = 0; p < out.size; ++p) {
    const int member = members[size_t(p)];
    if (member == rank) out.index = p;
    out.ranks[p] = member;
    out.windows[p] = transport_->window_of(member);
  }
  out.inbox = reinterpret_cast<uint32_t*>(window + flags_);
  out.flags = flags_;
  out.epoch = &words->epoch;
  out.block_words = reinterpret_cast<uint32_t*>(word_bytes_.get() + kAlign) + number * counters_of_stream();
  out.barriers = out.block_words + kBlockWords;
  out.fault = fault.get();
  out.timeout_ns = uint64_t(options.timeout * 1e9);
  return out;
}

int CudaState::number_of_checked(const char* node, int layer) {
  walks().checked_names.push_back(in_layer(node, layer));
  return int(walks().checked_names.size()) - 1;
}

// From now on this rank issues its steps each time; a capture that is going on is given up.
void CudaState::leave_capture() {
  walks().is_dynamic = true;
  if (is_capturing_) throw NotCapturable{};
}

/// Copies a value to the host while the program is being issued, so that such a walk cannot be captured.
/// Outside of steps it waits for all streams.
void CudaState::read(void* to, const void* at, size_t bytes) {
  leave_capture();
  if (open_.empty()) join(streams[0]);
  const cudaStream_t on = open_.empty() ? streams[0] : stream();
  check_cuda(cudaMemcpyAsync(landing_.get(), at, bytes, cudaMemcpyDeviceToHost, on), "reading a value");
  wait_for(on);
  memcpy(to, landing_.get(), bytes);
}

void CudaState::mark_waiting(bool waits) {
  mark_progress(stream(), progress_.get() + stream_number(), waits ? uint32_t(open_.back()) + 1 : 0);
}

// Makes all streams wait for what has been issued on one of them; join() is the reverse.
void CudaState::fork(cudaStream_t from) {
  if (streams.size() == 1) return;
  check_cuda(cudaEventRecord(fork_, from), "an event");
  for (const cudaStream_t stream : streams)
    if (stream != from) check_cuda(cudaStreamWaitEvent(stream, fork_, 0), "waiting for an event");
}

void CudaState::join(cudaStream_t into) {
  for (size_t s = 0; s < streams.size(); ++s) {
    if (streams[s] == into) continue;
    check_cuda(cudaEventRecord(joins_[s], streams[s]), "an event");
    check_cuda(cudaStreamWaitEvent(into, joins_[s], 0), "waiting for an event");
  }
}

/// Ranks that share a device share its context, in which the first use of a library's kernel loads it. Loading waits
/// for all kernels of the context, also for another rank's kernel that waits for this rank. So the library loads the
/// products of a walk before any rank issues a step. These are the products of the rehearsal. A rehearsal stops at a
/// value of the device, so products after it are loaded when the iteration that found them is over. A rank with a
/// context of its own does not need this, since other ranks' waits do not delay its loading.
void CudaState::make_ready() {
  if (sharers == 1 || is_ready_) return;
  check_cuda(cudaSetDevice(device), "the device");
  if (!walks().is_rehearsed) rehearse();
  if (contractions != nullptr) contractions->load(*this);
  barrier();
  is_ready_ = true;
}

void CudaState::begin_walk() {
  walks().steps.clear();
  open_.clear();
  walks().checked_names.clear();
}

/// Issues every step of the program once.
void CudaState::walk() {
  ++walks_;
  if (!evaluates) ++walks().count;
  begin_walk();
  fork(streams[0]);
  Rank view(*this);
  program.run(view);
  join(streams[0]);
}

/// The first walk is never captured: it chooses algorithms, makes communicators, loads kernels and takes
/// scratch memory.
bool CudaState::may_capture() {
  const bool has_host_barriers = options.in_process && world.shape.ranks > 1;
  return options.graph && !options.trace && !options.check_nan && options.stall.empty() && !has_host_barriers &&
         !walks().is_dynamic && walks().count > 0;
}

// Records a walk as a graph. A walk that reads a value from the device cannot be recorded, and is issued as
// before.
void CudaState::capture() {
  check_cuda(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal), "beginning a graph");
  is_capturing_ = true;
  cudaGraph_t graph = nullptr;
  try {
    walk();
  } catch (const NotCapturable&) {
    is_capturing_ = false;
    cudaStreamEndCapture(streams[0], &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    return;
  }
  is_capturing_ = false;
  check_cuda(cudaStreamEndCapture(streams[0], &graph), "capturing a graph");
  check_cuda(cudaGraphInstantiate(&walks().graph, graph, 0), "making a graph");
  check_cuda(cudaGraphDestroy(graph), "making a graph");
}

void CudaState::run_iteration() {
  if (options.trace) {
    check_cuda(cudaEventRecord(base_, streams[0]), "an event");
    check_cuda(cudaEventSynchronize(base_), "an event");
    base_ns_ = now_ns();
  }
  if (finite_watch) finite_watch->begin_invocation(streams[0]);
  store_words(streams[0], words, {epoch, invocation});
  if (walks().graph == nullptr && !evaluates && may_capture()) capture();
  if (walks().graph != nullptr && !evaluates)
    check_cuda(cudaGraphLaunch(walks().graph, streams[0]), "the launch of a graph");
  else
    walk();
  wait_for(streams[0]);
  if (finite_watch) finite_watch->end_invocation(streams[0]);
  if (options.trace) collect_trace();
}

/// One invocation. In a process of its own a failure ends the rank at once, because kernels that wait for it may never
/// end. If ranks are threads, the others notice, and all waits on devices end.
void CudaState::iterate() {
  check_cuda(cudaSetDevice(device), "the device");
  ++epoch;
  try {
    make_ready();
    is_ready_ = false;
    run_iteration();
  } catch (const Failure& failure) {
    report_failure(executable.name, world, rank, failure);
    if (!options.in_process) _exit(failure.code);
    abandon();
    throw Failure{failure.code, ""};
  }
  for (size_t s = 0; s < program.streams.size(); ++s) end_walk(int(s));
  barrier();
}

// Makes waiting kernels of this rank leave, and waits for its streams.
void CudaState::abandon() {
  __atomic_store_n(&fault->leave, 1, __ATOMIC_RELEASE);
  if (is_capturing_) {
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(streams[0], &graph);
    is_capturing_ = false;
  }
  transport_->abandon();
  for (const cudaStream_t stream : streams) cudaStreamSynchronize(stream);
}

/// Spins briefly, then looks every 50 us.
void CudaState::wait_for(cudaStream_t stream) {
  constexpr int kSpins = 4096, kLook = 64;
  for (int turn = 0;; ++turn) {
    const cudaError_t error = cudaStreamQuery(stream);
    if (error == cudaSuccess) break;
    if (error != cudaErrorNotReady) check_cuda(error, "the kernels of this iteration");
    if (turn == kSpins && open_.empty()) say_status();
    if (turn % kLook == 0) watch();
    if (turn < kSpins)
      relax(turn);
    else
      usleep(50);
  }
  check_fault();
}

void CudaState::watch() {
  check_fault();
  if (world.has_failed()) throw Failure{world.failure(), ""};
  transport_->poll();
  check_progress();
}

// Kernels cannot print a message: they leave words in memory of the host that say what went wrong.
void CudaState::check_fault() {
  if (__atomic_load_n(&fault->set, __ATOMIC_ACQUIRE) == 0) return;
  if (fault->name >= 0) {
    complain(text("%s: index %ld lies outside of a dimension of %ld elements",
                  walks().checked_names[size_t(fault->name)].c_str(), long(fault->count), long(fault->bound)));
    __atomic_store_n(&fault->set, 0, __ATOMIC_RELEASE);
    return __atomic_store_n(&fault->claimed, 0, __ATOMIC_RELEASE);
  }
  const std::string awaited = fault->element == kAtBarrier ? text("rank %d at a barrier", fault->peer)
                              : fault->element == kOfBlocks
                                  ? std::string("the other blocks of its kernel")
                                  : text("element %d of rank %d", fault->element, fault->peer);
  time_out(&walks().steps[size_t(fault->step)].step, awaited);
}

/// A library that waits for other ranks does not report anything, so that the host watches how long a step is
/// in it.
void CudaState::check_progress() {
  constexpr double kGrace = 1;  // a wait inside a kernel knows better what is missing
  for (size_t s = 0; s < streams.size(); ++s) {
    auto& [seen, patience] = progress_seen_[s];
    const uint32_t value = __atomic_load_n(progress_.get() + s, __ATOMIC_ACQUIRE);
    if (value != seen || value == 0) seen = value, patience = Patience(options.timeout + kGrace);
    if (value != 0 && patience.is_over()) time_out(&walks().steps[value - 1].step, "the other ranks of its collective");
  }
}

/// Everything is issued: a stream's step is known if it waits in a library, or if it has nothing left to do.
void CudaState::say_status() const {
  for (size_t s = 0; s < program.streams.size(); ++s) {
    const uint32_t waits = __atomic_load_n(progress_.get() + s, __ATOMIC_ACQUIRE);
    const bool is_done = s > 0 && cudaStreamQuery(streams[s]) == cudaSuccess;
    const std::string where = waits != 0 ? name_of(walks().steps[waits - 1].step)
                              : is_done  ? "end of the iteration"
                                         : "issued kernels";
    world.set_status(rank, int(s), where.c_str(), 0);
    world.set_awaited(rank, int(s), waits != 0 ? Awaited::OtherRanks : Awaited::OwnRank);
  }
}

void CudaState::set_awaited(Awaited awaited) const {
  for (size_t s = 0; s < program.streams.size(); ++s) world.set_awaited(rank, int(s), awaited);
}

void CudaState::check_stalled() const {
  if (!options.stall.empty()) no_such_step(step_names_);
}

void CudaState::clear_trace() {
  for (std::vector<Event>& trace : traces_) trace.clear();
}

void CudaState::collect_trace() {
  const auto time_of = [&](cudaEvent_t event) {
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, base_, event), "the time of an event");
    return base_ns_ + int64_t(double(ms) * 1e6);
  };
  for (IssuedStep& issued : walks().steps) {
    traces_[size_t(issued.step.stream)].push_back({issued.step, issued.index, time_of(issued.begin),
                                                   time_of(issued.end), 0, invocation, issued.communicates,
                                                   issued.block});
    cudaEventDestroy(issued.begin);
    cudaEventDestroy(issued.end);
  }
}

}  // namespace weft
