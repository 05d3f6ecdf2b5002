// Blocks: threads as fibers, their barriers, warp functions and shared memory. Compiled without the thread sanitizer's
// instrumentation: what happens in here is the hardware.
#include "block.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <sched.h>
#include <sys/mman.h>

#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

__thread uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace weft::emulation {

static __thread Block* the_block;
static thread_local std::vector<char*> free_stacks;

Block* current_block() { return the_block; }

static constexpr size_t kArenaBytes = 232 * 1024, kRedZone = 64;
static constexpr size_t kMostShared = 48 * 1024;  // that a kernel declares
static constexpr uint64_t kZoneWord = 0xa5a5a5a5a5a5a5a5;

/// A store that no sanitizer takes for one of the program.
static void fill(char* at, size_t bytes, uint64_t word) {
  volatile char* to = at;
  for (; bytes % 8 != 0; --bytes) to[bytes - 1] = char(word);
  volatile uint64_t* words = reinterpret_cast<uint64_t*>(at);
  for (size_t i = 0; i < bytes / 8; ++i) words[i] = word;
}

static uint3 position(uint64_t i, const dim3& extent) {
  if (extent.y == 1 && extent.z == 1) return {unsigned(i), 0, 0};  // divisions are slow
  return {unsigned(i % extent.x), unsigned(i / extent.x % extent.y), unsigned(i / extent.x / extent.y)};
}

static uint3 extent_of(const dim3& d) { return {d.x, d.y, d.z}; }

Block::~Block() {
  for (Thread& thread : threads_)
    if (thread.stack != nullptr) free_stack(thread.stack);
  if (arena_ != nullptr) munmap(arena_, kArenaBytes);
}

void Block::start(const Launch& launch, const Edges& edges, uint64_t index, uint64_t seed) {
  launch_ = &launch, edges_ = &edges;
  index_ = position(index, launch.grid);
  count_ = alive_ = launch.block.x * launch.block.y * launch.block.z;
  arrived_ = 0, true_count_ = 0;
  random_ = Random(seed);
  if (threads_.size() < count_) threads_.resize(count_);
  warps_.assign((count_ + 31) / 32, Lanes{});
  for (unsigned w = 0; w < warps_.size(); ++w)
    warps_[w].ready = count_ - w * 32 >= 32 ? ~0u : (1u << (count_ - w * 32)) - 1;
  shared_.clear();
  arena_used_ = shared_bytes_ = 0;
  // New pages have no history: the next block's use of the same bytes is no race with this one's.
  if (arena_ == nullptr || kThreadSanitizer) {
    void* at = mmap(arena_, kArenaBytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | (arena_ == nullptr ? 0 : MAP_FIXED), -1, 0);
    if (at == MAP_FAILED) fail("no memory for another block");
    arena_ = static_cast<char*>(at);
  }
  asan_poison(arena_, kArenaBytes);
  tsan_release(this);
}

Block::Result Block::run() {
  the_block = this;
  worker_tsan_ = tsan_current();
  blockIdx = index_, blockDim = extent_of(launch_->block), gridDim = extent_of(launch_->grid);
  for (Lanes& warp : warps_) warp.ready |= warp.sleeping, warp.sleeping = 0;
  Result result = Result::Finished;
  while (run_warps() && alive_ > 0) continue;
  if (alive_ > 0) {
    for (const Lanes& warp : warps_)
      if (warp.sleeping != 0) result = Result::Paused;
    if (result == Result::Finished) report_stuck();
  } else {
    finish();
  }
  the_block = nullptr;
  return result;
}

/// Each warp runs as far as it can, in fixed or random order. False: none could.
bool Block::run_warps() {
  const bool shuffled = knobs().order == Order::Random;
  const Permutation order = shuffled ? Permutation::shuffled(warps_.size(), random_) : Permutation{warps_.size()};
  bool progress = false;
  for (uint64_t i = 0; i < warps_.size(); ++i) {
    const unsigned w = unsigned(order.at(i));
    while (const uint32_t ready = warps_[w].ready) {
      const int turn = shuffled ? int(random_.below(32)) : 0;
      // Once round the lanes that are ready now, so that all of them come along.
      for (uint32_t lanes = std::rotr(ready, turn); lanes != 0; lanes &= lanes - 1)
        run_thread(w * 32 + unsigned(std::countr_zero(lanes) + turn) % 32);
      progress = true;
    }
  }
  return progress;
}

void Block::run_thread(unsigned index) {
  Thread& thread = threads_[index];
  Lanes& warp = warps_[index / 32];
  const uint32_t bit = 1u << index % 32;
  warp.ready &= ~bit;
  current_ = index;
  threadIdx = position(index, launch_->block);
  if (thread.fiber.stack == nullptr) start_thread(thread);
  tsan_switch(thread.tsan);
  switch_fiber(worker_, thread.fiber);
  if (warp.ended & bit) end_thread(index);
}

static void fiber_entry() { current_block()->thread_main(); }

/// A thread that never waits leaves its stack, still in the cache, to the next one. Not so under the thread sanitizer,
/// for which two threads on one stack would race.
void Block::start_thread(Thread& thread) {
  if (thread.stack == nullptr && !kThreadSanitizer && !free_stacks.empty()) {
    thread.stack = free_stacks.back();
    free_stacks.pop_back();
  }
  if (thread.stack == nullptr) thread.stack = new_stack();
  if (kThreadSanitizer && thread.tsan == nullptr) thread.tsan = tsan_new_fiber();
  prepare_fiber(thread.fiber, thread.stack, fiber_entry);
}

void Block::thread_main() {
  fiber_started(worker_);
  tsan_acquire(this);
  for (const void* edge : edges_->before) tsan_acquire(edge);
  launch_->thread();
  tsan_release(edges_->after);
  Thread& thread = threads_[current_];
  warps_[current_ / 32].ended |= 1u << current_ % 32;
  --alive_;
  tsan_switch(worker_tsan_);
  switch_fiber(thread.fiber, worker_, true);
  abort();
}

void Block::end_thread(unsigned index) {
  Thread& thread = threads_[index];
  asan_unpoison(thread.stack, kStackBytes);
  thread.fiber.stack = nullptr;
  if (kThreadSanitizer) return;
  free_stacks.push_back(thread.stack);
  thread.stack = nullptr;
}

void Block::leave(Thread& thread) {
  tsan_switch(worker_tsan_);
  switch_fiber(thread.fiber, worker_);
}

void Block::pause() {
  warps_[current_ / 32].sleeping |= 1u << current_ % 32;
  leave(threads_[current_]);
}

void Block::perturb() {
  if (knobs().order == Order::Random && random_.below(4) == 0) pause();
}

void Block::finish() {
  asan_unpoison(arena_, kArenaBytes);
  check_shared();
}

static bool same_place(const Where& a, const Where& b) {
  if (a.line() != b.line() || a.column() != b.column()) return false;
  return a.file_name() == b.file_name() || __builtin_strcmp(a.file_name(), b.file_name()) == 0;
}

int Block::barrier(Reduce reduce, int predicate, const Where& where) {
  Thread& thread = threads_[current_];
  thread.where = where;
  if (arrived_ == 0) first_at_barrier_ = current_, reduce_ = reduce;
  if (!same_place(threads_[first_at_barrier_].where, where))
    mismatch(threads_[first_at_barrier_], first_at_barrier_, thread, current_);
  true_count_ += predicate != 0;
  const unsigned mine = barriers_ % 2;
  // An edge object for each of two barriers in a row: who is late here must not learn what others did after it.
  const void* edge = &results_[mine];
  tsan_release(edge);
  if (++arrived_ == count_) {
    complete_barrier();
  } else {
    warps_[current_ / 32].at_barrier |= 1u << current_ % 32;
    leave(thread);
  }
  tsan_acquire(edge);
  return results_[mine];
}

void Block::complete_barrier() {
  int& result = results_[barriers_++ % 2];
  switch (reduce_) {
    case Reduce::None:
      result = 0;
      break;
    case Reduce::Or:
      result = true_count_ > 0;
      break;
    case Reduce::And:
      result = true_count_ == int(count_);
      break;
    case Reduce::Count:
      result = true_count_;
      break;
  }
  arrived_ = 0, true_count_ = 0;
  for (Lanes& warp : warps_) warp.ready |= warp.at_barrier, warp.at_barrier = 0;
}

uint64_t Block::exchange(Warp kind, unsigned mask, uint64_t value, int source, const Where& where) {
  const unsigned lane = current_ % 32, first = current_ - lane;
  Thread& thread = threads_[current_];
  Lanes& warp = warps_[current_ / 32];
  if (count_ - first < 32) mask &= (1u << (count_ - first)) - 1;  // lanes that a short last warp does not have
  thread.where = where, thread.mask = mask, thread.kind = kind, thread.value = value, thread.source = uint8_t(source);
  if (!(mask >> lane & 1))
    fail("lane %u is not in its own mask %08x at %s:%u", lane, mask, where.file_name(), where.line());
  if (kind == Warp::Sync) tsan_release(&warp);
  warp.waiting |= 1u << lane;
  if ((warp.waiting & mask) == mask)
    complete_exchange(warp, mask, first);
  else
    leave(thread);
  if (kind == Warp::Sync) tsan_acquire(&warp);
  return thread.taken;
}

/// All lanes of the mask are here: each takes its value, and all but the last to come may run on.
void Block::complete_exchange(Lanes& warp, unsigned mask, unsigned first) {
  const Thread& last = threads_[current_];
  uint64_t votes = 0;
  for (uint32_t lanes = mask; lanes != 0; lanes &= lanes - 1) {
    const unsigned index = first + unsigned(std::countr_zero(lanes));
    const Thread& thread = threads_[index];
    if (thread.mask != mask || thread.kind != last.kind || !same_place(thread.where, last.where))
      mismatch(thread, index, last, current_);
    votes |= thread.value << index % 32;
  }
  for (uint32_t lanes = mask; lanes != 0; lanes &= lanes - 1) {
    Thread& thread = threads_[first + unsigned(std::countr_zero(lanes))];
    if (last.kind == Warp::Vote) {
      thread.taken = votes;
    } else if (mask >> thread.source & 1) {
      thread.taken = threads_[first + thread.source].value;
    } else {
      thread.taken = ~uint64_t{0};  // undefined on the device
    }
  }
  warp.waiting &= ~mask;
  warp.ready |= mask & ~(1u << current_ % 32);
}

void* Block::shared(const void* key, size_t bytes, const char* what) {
  for (const Shared& s : shared_)
    if (s.key == key) return s.at;
  const size_t room = (bytes + 127) / 128 * 128;
  if ((shared_bytes_ += bytes) > kMostShared)
    fail("%zu bytes of shared memory, and a kernel has %zu: %s", shared_bytes_, kMostShared, what);
  if (arena_used_ + room + 2 * kRedZone > kArenaBytes) fail("too many arrays in shared memory");
  char* zone = arena_ + arena_used_;
  char* at = zone + kRedZone;
  arena_used_ += kRedZone + room;  // the zone after it is also the zone before the next one
  asan_unpoison(zone, room + 2 * kRedZone);
  fill(zone, kRedZone, kZoneWord);
  fill(at, bytes, ~uint64_t{0});
  fill(at + bytes, room - bytes + kRedZone, kZoneWord);
  asan_poison(zone, kRedZone);
  asan_poison(at + bytes, room - bytes + kRedZone);
  tsan_ignore_begin();  // the list is the emulation's own, and outlives the threads that add to it
  shared_.push_back({key, what, at, bytes});
  tsan_ignore_end();
  return at;
}

void Block::check_shared() const {
  for (const Shared& s : shared_) {
    const volatile char* at = s.at;
    for (size_t i = 0; i < kRedZone; ++i)
      if (at[int64_t(s.bytes + i)] != char(kZoneWord) || at[-1 - int64_t(i)] != char(kZoneWord))
        fail("a write beside the %zu bytes of %s", s.bytes, s.what);
  }
}

const char* function_name(const void* function, char* text, size_t size) {
  Dl_info info = {};
  if (dladdr(function, &info) == 0 || info.dli_sname == nullptr) {
    snprintf(text, size, "at %p", function);
    return text;
  }
  int status = 0;
  char* name = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
  snprintf(text, size, "%s", status == 0 ? name : info.dli_sname);
  free(name);
  if (char* arguments = __builtin_strchr(text, '(')) *arguments = '\0';
  return text;
}

void Block::describe(char* text, size_t size) const {
  char name[256];
  const uint3 thread = position(current_, launch_->block);
  snprintf(text, size, " kernel %s, block (%u,%u,%u), thread (%u,%u,%u)",
           function_name(launch_->function, name, sizeof name), index_.x, index_.y, index_.z, thread.x, thread.y,
           thread.z);
}

void Block::mismatch(const Thread& a, unsigned a_index, const Thread& b, unsigned b_index) const {
  fail("threads %u and %u of the block meet at different places: %s:%u (mask %08x) and %s:%u (mask %08x)", a_index,
       b_index, a.where.file_name(), a.where.line(), a.mask, b.where.file_name(), b.where.line(), b.mask);
}

/// Nobody can run: some threads wait for others that have ended, or that wait elsewhere.
void Block::report_stuck() {
  unsigned waits = count_, absent = count_;
  const bool at_barrier = arrived_ > 0;
  for (unsigned i = 0; i < count_; ++i) {
    const Lanes& warp = warps_[i / 32];
    const bool here = (at_barrier ? warp.at_barrier : warp.waiting) >> i % 32 & 1;
    if (here && waits == count_) waits = i;
  }
  for (unsigned i = 0; i < count_; ++i) {
    const Lanes& warp = warps_[i / 32];
    const bool wanted = at_barrier || (i / 32 == waits / 32 && (threads_[waits].mask >> i % 32 & 1));
    const bool here = (at_barrier ? warp.at_barrier : warp.waiting) >> i % 32 & 1;
    if (wanted && !here && absent == count_) absent = i;
  }
  const Thread& thread = threads_[waits];
  current_ = waits;      // the one to name
  if (absent == count_)  // all wait in one warp, but not for the same mask
    fail("thread %u waits for lanes %08x at %s:%u, but they wait for other lanes", waits, thread.mask,
         thread.where.file_name(), thread.where.line());
  const bool ended = warps_[absent / 32].ended >> absent % 32 & 1;
  const Where& other = threads_[absent].where;
  if (ended)
    fail("divergent barrier: thread %u waits at %s:%u, but thread %u has ended", waits, thread.where.file_name(),
         thread.where.line(), absent);
  fail("divergent barrier: thread %u waits at %s:%u, but thread %u waits at %s:%u", waits, thread.where.file_name(),
       thread.where.line(), absent, other.file_name(), other.line());
}

void fail(const char* format, ...) {
  char what[1024], where[512] = "";
  va_list list;
  va_start(list, format);
  vsnprintf(what, sizeof what, format, list);
  va_end(list);
  if (the_block != nullptr) the_block->describe(where, sizeof where);
  fprintf(stderr, "emulation:%s: %s\n", where, what);
  fflush(stderr);
  abort();
}

static Block& here() {
  if (the_block == nullptr) fail("a device function was called outside of a kernel");
  return *the_block;
}

int block_barrier(Reduce reduce, int predicate, const Where& where) { return here().barrier(reduce, predicate, where); }
uint64_t warp_exchange(Warp kind, unsigned mask, uint64_t value, int source, const Where& where) {
  return here().exchange(kind, mask, value, source, where);
}
unsigned warp_vote(unsigned mask, bool predicate, const Where& where) {
  return unsigned(here().exchange(Warp::Vote, mask, predicate, 0, where));
}
int lane() { return here().lane(); }
void* shared_memory(const void* key, size_t bytes, const char* what) { return here().shared(key, bytes, what); }

void fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

void pause() {
  if (the_block != nullptr)
    the_block->pause();
  else
    sched_yield();
}

void perturb() {
  if (the_block != nullptr) the_block->perturb();
}

uint64_t clock_ns() {
  return uint64_t(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

}  // namespace weft::emulation
