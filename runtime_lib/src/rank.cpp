// Ranks and their streams: steps, signals, barriers, and the threads that walk the program.
#include "rank.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "collectives.h"
#include "cores.h"
#include "geometry.h"
#include "manifest.h"
#include "step_text.h"
#include "turns.h"
#include "wait.h"
#include "weft/strings.h"

namespace weft {

RankState::RankState(const Executable& e, const Program& p, World& w, int r, const char* i, std::string_view m,
                     const RankOptions& o)
    : RankBase(e, p, w, r, i, m, o),
      memory(Mapping::zeroed(p.own_bytes)),
      own(memory.data()),
      network(static_cast<Network*>(w.relay)),
      link(o.link),
      walks(p.streams.size()) {
  if (network != nullptr && o.link.is_limited()) fail(kUsage, "--link: the ranks of this program share no memory");
  if (own != nullptr) madvise(own, size_t(p.own_bytes), MADV_HUGEPAGE);
  for (size_t s = 0; s < walks.size(); ++s) {
    walks[s].team =
        std::make_unique<Team>(p.streams[s].parallel ? o.threads : 1, o.cores.empty() ? nullptr : o.cores.data());
    if (network != nullptr)
      walks[s].messages = std::make_unique<Messages>(*this, *network, int(s), *walks[s].team,
                                                     [this, s](const std::string& what) { time_out(int(s), what); });
    if (o.check_nan) walks[s].finite_check = std::make_unique<FiniteCheck>(*this);
    walks[s].ticks.assign(size_t(w.shape.ranks), 0);
  }
  try {
    for (size_t s = 1; s < walks.size(); ++s) threads_.emplace_back([this, s] { serve(int(s)); });
    for (size_t s = 0; s < walks.size() && !o.cores.empty(); ++s) {
      // The thread of a computing stream is the first of its team and has its core; other streams' threads use any free
      // core of the rank.
      const size_t cores = p.streams[s].parallel ? 1 : o.cores.size();
      keep_to(std::span(o.cores).first(cores), s == 0 ? pthread_self() : threads_[s - 1].native_handle());
    }
  } catch (...) {  // the system has no more threads
    end_threads();
    throw;
  }
}

RankState::~RankState() { end_threads(); }

void RankState::end_threads() {
  stop_ = true;
  started_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(started_, Scope::Process);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

char* RankState::at(const Range& range) const { return (range.in_window ? world.window(rank) : own) + range.offset; }

void RankState::walk(int stream) {
  if (stream >= int(program.streams.size())) return;
  const Portion of_stream = program.streams[size_t(stream)].parallel ? Portion::Computation : Portion::Communication;
  if (portion != Portion::Whole && portion != of_stream) return;
  Rank view(*this, stream);
  program.run(view);
  end_walk(stream);
}

[[noreturn]] void RankState::leave(int code) const {
  if (network != nullptr) network->abort(code);
  _exit(code);
}

/// A failure in a process ends it at once, since other streams may be deep in a kernel; where ranks are threads, it is
/// kept.
void RankState::guarded_walk(int stream) {
  try {
    walk(stream);
  } catch (const Failure& failure) {
    // Another stream sees the failure as soon as it is set, and must not end the process before it is printed.
    const std::lock_guard lock(failure_mutex_);
    report_failure(executable.name, world, rank, failure);
    if (!options.in_process) leave(failure.code);
    failures_.push_back(failure);
  }
}

void RankState::serve(int stream) {
  if (!widest.streams[size_t(stream)].parallel) take_short_turns();
  for (uint32_t seen = 0;; ++seen) {
    wait_for_change(started_, seen, sleepers_, kShortSpin);
    if (stop_) return;
    guarded_walk(stream);
    done_.fetch_add(1, std::memory_order_release);
    futex_wake_all(done_, Scope::Process);
  }
}

void RankState::iterate() {
  ++epoch;
  done_.store(0, std::memory_order_relaxed);
  started_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) futex_wake_all(started_, Scope::Process);
  guarded_walk(0);
  for (uint32_t done; (done = done_.load(std::memory_order_acquire)) != threads_.size();)
    futex_sleep(done_, done, 1'000'000'000, Scope::Process);
  rethrow();
  barrier();
}

void RankState::rethrow() {
  if (!failures_.empty()) throw Failure{failures_.front().code, ""};
}

void RankState::poison(const std::vector<Range>& keep) {
  std::vector<std::vector<char>> kept;
  for (const Range& range : keep) kept.emplace_back(at(range), at(range) + range.bytes);
  if (own != nullptr) memset(own, 0xff, size_t(widest.own_bytes));
  memset(world.window(rank), 0xff, size_t(widest.window_bytes));
  for (size_t i = 0; i < keep.size(); ++i) std::copy(kept[i].begin(), kept[i].end(), at(keep[i]));
}

void RankState::check_stalled() const {
  if (options.stall.empty()) return;
  std::set<std::string> names;
  for (const Walk& walk : walks) names.insert(walk.names.begin(), walk.names.end());
  no_such_step(names);
}

void RankState::clear_trace() {
  for (Walk& walk : walks) walk.trace.clear();
}

Oddity RankState::first_infinity() const {
  Oddity first;
  for (const Walk& walk : walks) {
    const Oddity found = walk.finite_check ? walk.finite_check->first_infinity() : Oddity{};
    if (found.ns != 0 && (first.ns == 0 || found.ns < first.ns)) first = found;
  }
  return first;
}

void RankState::time_out(int stream, const std::string& awaited) const {
  const std::vector<Event>& steps = walks[size_t(stream)].steps;
  // If this stream waits for another stream of the rank, the message adds the messages that the other one waits for.
  const bool is_told = network == nullptr || awaited.starts_with("messages");
  const std::string missing = is_told ? "" : network->awaited();
  RankBase::time_out(
      steps.empty() ? nullptr : &steps.back().step,
      missing.empty() ? awaited : text("%s (under way: messages with %s)", awaited.c_str(), missing.c_str()));
}

const bool kWindowsInWorld = true;
const int kNotesOfRank = 0;

namespace {
struct HostTarget final : Target {
  std::unique_ptr<RankBase> make_rank(const Program& program, World& world, int rank, const char* image,
                                      std::string_view manifest, const RankOptions& options) override {
    return std::make_unique<RankState>(executable, program, world, rank, image, manifest, options);
  }
  explicit HostTarget(const Executable& e) : executable(e) {}
  const Executable& executable;
};
}  // namespace

std::unique_ptr<Target> open_target(const Executable& executable, int) {
  return std::make_unique<HostTarget>(executable);
}

Rank::Rank(RankState& state, int s)
    : RankSurface(state.rank, state.own, state.world.window(state.rank), state.image),
      stream(s),
      state_(state),
      walk_(&state.walks[size_t(s)]),
      team_(walk_->team.get()),
      windows_(state.world.window(0)),
      window_stride_(state.world.window_stride()) {
  walk_->steps.clear();
  watch_ = walk_->finite_check.get();
  if (walk_->finite_check) walk_->finite_check->begin_invocation();
}

Rank::~Rank() = default;

uint32_t Rank::invocation() const { return state_.invocation; }

bool Rank::evaluates() const { return state_.evaluates; }

bool Rank::enter(const Step& step, int64_t index) {
  if (step.stream != stream) return false;
  state_.world.set_status(rank, stream, step, index);
  walk_->steps.push_back({step, index, state_.options.trace ? now_ns() : 0, 0});
  if (!state_.options.stall.empty()) {
    walk_->names.insert(name_of(step));
    if (state_.options.stall == name_of(step)) state_.stall_in(step);
  }
  if (walk_->finite_check) walk_->finite_check->begin_step();
  return true;
}

/// Says which step has ended last.
static void set_after(const World& world, int rank, int stream, const Step& step, int64_t index) {
  char after[Status::kWords * 8];
  memcpy(after, kAfter.data(), kAfter.size());
  const size_t length = std::min(strlen(step.name), sizeof after - kAfter.size() - 1);
  memcpy(after + kAfter.size(), step.name, length);
  after[kAfter.size() + length] = '\0';
  world.set_status(rank, stream, after, index, step.layer);
}

void Rank::leave() {
  if (walk_->finite_check) walk_->finite_check->end_step(walk_->steps.back().step);
  if (state_.options.trace && state_.portion == Portion::Whole) {
    walk_->steps.back().end_ns = now_ns();
    walk_->steps.back().invocation = state_.invocation;
    walk_->steps.back().block = block_;
    walk_->trace.push_back(walk_->steps.back());
  }
  const Step step = walk_->steps.back().step;
  const int64_t index = walk_->steps.back().index;
  walk_->steps.pop_back();
  if (walk_->steps.empty()) return set_after(state_.world, rank, stream, step, index);
  state_.world.set_status(rank, stream, walk_->steps.back().step, walk_->steps.back().index);
}

namespace {
/// While this object exists, the stream waits for a rank, perhaps its own.
class Waiting {
 public:
  Waiting(const RankState& state, int stream, Walk& walk, int for_rank)
      : state_(state),
        stream_(stream),
        walk_(walk),
        begin_ns_(state.options.trace && !walk.steps.empty() ? now_ns() : 0) {
    state.world.set_awaited(state.rank, stream, for_rank == state.rank ? Awaited::OwnRank : Awaited::OtherRanks);
  }
  ~Waiting() {
    state_.world.set_awaited(state_.rank, stream_, Awaited::Nothing);
    if (begin_ns_ != 0) walk_.steps.back().waited_ns += now_ns() - begin_ns_;
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  const RankState& state_;
  const int stream_;
  Walk& walk_;
  const int64_t begin_ns_;  // for --trace
};
}  // namespace

void Rank::signal(const Signal& signal, int i) {
  Word& flag = state_.world.flag(rank, signal.slot + i);
  state_.world.signal(rank, flag, state_.epoch);
  if (state_.network == nullptr) return;
  for (int p = 0, n = signal.group.size(); p < n; ++p)
    if (const int peer = signal.group.peer(rank, p); peer != rank) state_.network->post(peer, flag, state_.epoch);
}

void Rank::wait_for_flag(int of_rank, int slot, const char* what, int i) {
  if (state_.portion != Portion::Whole) return;
  const Waiting waiting(state_, stream, *walk_, of_rank);
  if (state_.world.wait(of_rank, state_.world.flag(of_rank, slot), state_.epoch, state_.options.timeout)) return;
  state_.time_out(stream, text("%s %d of rank %d", what, i, of_rank));
}

void Rank::wait(const Signal& signal, int i) {
  for (int p = 0, n = signal.group.size(); p < n; ++p)
    wait_for_flag(signal.group.peer(rank, p), signal.slot + i, "element", i);
}

/// Both ranks of a pair count the barriers that they have entered together on a stream. Thus no group needs slots of
/// its own.
void Rank::barrier(const Group& group) {
  walk_->note_exchange();
  World& world = state_.world;
  for (int p = 0, n = group.size(); p < n; ++p) {
    const int peer = group.peer(rank, p);
    if (peer == rank) continue;
    Word& tick = world.tick(rank, stream, peer);
    world.signal(rank, tick, ++walk_->ticks[size_t(peer)]);
    if (state_.network != nullptr) state_.network->post(peer, tick, tick);
  }
  for (int p = 0, n = group.size(); p < n; ++p) {
    const int peer = group.peer(rank, p);
    if (peer == rank) continue;
    const Waiting waiting(state_, stream, *walk_, peer);
    if (!world.wait(peer, world.tick(peer, stream, rank), walk_->ticks[size_t(peer)], state_.options.timeout))
      state_.time_out(stream, text("rank %d at a barrier", peer));
  }
  if (state_.link.speed.is_limited() && group.size() > 1) walk_->clock.add_latency(state_.link);
}

void Rank::received(int64_t bytes) {
  state_.link.received_bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (state_.link.speed.is_limited()) walk_->clock.receive(state_.link, bytes);
}

void Rank::refuse_request(const Step& step) {
  try {
    throw;
  } catch (const BadString& bad) {
    state_.complain(text("%s: %s", nodes_of(step).c_str(), bad.what.c_str()));
  }
}

void IndexCheck::refuse(int64_t index, int64_t extent) const {
  rank->complain(text("%s: index %ld lies outside of a dimension of %ld elements", in_layer(node, layer).c_str(),
                      long(index), long(extent)));
}

void Rank::copy_bytes(void* to, const void* from, int64_t bytes) { memcpy(to, from, size_t(bytes)); }
void Rank::read(void* to, const void* at, size_t bytes) { memcpy(to, at, bytes); }
void Rank::write(void* at, const void* from, size_t bytes) { memcpy(at, from, bytes); }

bool Rank::shares_memory_with(int peer) const { return peer == rank || state_.network == nullptr; }

void Rank::send_rows(const Transfer& t, int micro_batch, DType dtype, int64_t src) {
  const int ready = t.slot + micro_batch, pulled = t.slot + t.micro_batches + micro_batch;
  bool is_sender = false;
  for (const Message& m : t.messages) is_sender |= m.from == rank;
  if (!is_sender) return;
  walk_->note_exchange();
  state_.world.signal(rank, state_.world.flag(rank, ready), state_.epoch);
  if (walk_->messages) walk_->messages->send_rows(t, micro_batch, element_bytes(dtype), src);
  for (const Message& m : t.messages)
    if (m.from == rank && shares_memory_with(m.to)) wait_for_flag(m.to, pulled, "receipt of micro-batch", micro_batch);
}

void Rank::recv_rows(const Transfer& t, int micro_batch, DType dtype, int64_t src, void* dst) {
  const int64_t element = element_bytes(dtype);
  const int ready = t.slot + micro_batch, pulled = t.slot + t.micro_batches + micro_batch;
  bool is_receiver = false;
  for (const Message& m : t.messages) {
    if (m.to != rank) continue;
    is_receiver = true;
    walk_->note_exchange();
    if (!shares_memory_with(m.from)) continue;
    wait_for_flag(m.from, ready, "micro-batch", micro_batch);
    if (state_.link.speed.is_limited() && m.from != rank) walk_->clock.add_latency(state_.link);
    copy_message(m, element, window(m.from) + src, static_cast<char*>(dst));
    if (m.from != rank) received(count_of(m.dims) * element);
  }
  if (walk_->messages) walk_->messages->recv_rows(t, micro_batch, element, static_cast<char*>(dst));
  if (is_receiver) state_.world.signal(rank, state_.world.flag(rank, pulled), state_.epoch);
}

}  // namespace weft
