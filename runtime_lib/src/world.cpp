// The shared segment: where everything lies in it, waiting for words in it, and the first failure. All
// positions are computed from the WorldShape, so that processes that map the segment at different addresses
// agree.
//
//   | header | rank slots | status | notes | flags | ticks | windows of all ranks | staging |
#include "world.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "relay.h"
#include "step_text.h"
#include "wait.h"

namespace weft {

struct World::Header {
  std::atomic<uint64_t> build, socket_node;
  Word end_asked, end_agreed;
  std::atomic<uint64_t> failure;  // rank + 1 in the upper half, exit code in the lower
  alignas(64) Word arrived;
  alignas(64) Word generation;
  Word sleepers;
};

namespace {

constexpr int64_t kLine = 64;

/// Allocates parts of the segment in sequence.
struct Carver {
  int64_t at = 0;
  int64_t take(int64_t bytes, int64_t align) {
    const int64_t begin = round_up(at, align);
    at = begin + bytes;
    return begin;
  }
};

struct Positions {
  int64_t header, ranks, status, notes, flags, ticks, windows, staging, end;
  int64_t flag_stride, tick_stride, window_stride;
};

Positions positions(const WorldShape& s, int64_t header_bytes) {
  const int64_t word = sizeof(Word), ranks = s.ranks;
  Positions p;
  p.flag_stride = round_up(s.signals * word, kLine) / word;
  p.tick_stride = round_up(ranks * word, kLine) / word;
  p.window_stride = round_up(s.window_bytes, kPage);
  Carver carve;
  p.header = carve.take(header_bytes, kLine);
  p.ranks = carve.take(ranks * int64_t{sizeof(RankSlot)}, kLine);
  p.status = carve.take(ranks * s.streams * int64_t{sizeof(Status)}, kLine);
  p.notes = carve.take(ranks * s.notes * int64_t{sizeof(Note)}, kLine);
  p.flags = carve.take(ranks * p.flag_stride * word, kLine);
  p.ticks = carve.take(ranks * s.streams * p.tick_stride * word, kLine);
  p.windows = carve.take(ranks * p.window_stride, kPage);
  p.staging = carve.take(s.staging_bytes, kPage);
  p.end = round_up(carve.at, kPage);
  return p;
}

/// Compares modulo 2^32: flags count on for ever and wrap around.
bool has_reached(uint32_t word, uint32_t value) { return int32_t(word - value) >= 0; }

}  // namespace

int64_t World::bytes_of(const WorldShape& shape) { return positions(shape, sizeof(Header)).end; }

World::World(const WorldShape& s, char* memory) : shape(s), memory_(memory) {
  const Positions p = positions(s, sizeof(Header));
  header_ = reinterpret_cast<Header*>(memory + p.header);
  ranks_ = reinterpret_cast<RankSlot*>(memory + p.ranks);
  status_ = reinterpret_cast<Status*>(memory + p.status);
  notes_ = reinterpret_cast<Note*>(memory + p.notes);
  flags_ = reinterpret_cast<Word*>(memory + p.flags);
  ticks_ = reinterpret_cast<Word*>(memory + p.ticks);
  windows_ = memory + p.windows;
  staging_ = memory + p.staging;
  flag_stride_ = p.flag_stride;
  tick_stride_ = p.tick_stride;
  window_stride_ = p.window_stride;
  // Spinning pays only while the one awaited can run at the same time.
  spins_ = s.ranks * s.streams <= int(std::thread::hardware_concurrency()) ? kLongSpin : kShortSpin;
}

void World::set_status(int rank, int stream, const char* name, int64_t index, int layer) const {
  Status& status = status_[rank * shape.streams + stream];
  const size_t length = std::min(strlen(name), size_t(Status::kWords * 8 - 1));
  for (size_t word = 0; word * 8 <= length; ++word) {
    uint64_t letters = 0;
    memcpy(&letters, name + word * 8, std::min<size_t>(8, length - word * 8));
    status.text[word].store(letters, std::memory_order_relaxed);
  }
  status.index.store(index, std::memory_order_relaxed);
  status.layer.store(layer, std::memory_order_relaxed);
  status.awaited.store(Awaited::Nothing, std::memory_order_relaxed);
}

std::string World::status(int rank, int stream) const {
  const Status& status = status_[rank * shape.streams + stream];
  char name[Status::kWords * 8 + 1] = {};
  for (int word = 0; word < Status::kWords; ++word) {
    const uint64_t letters = status.text[word].load(std::memory_order_relaxed);
    memcpy(name + ptrdiff_t{word} * 8, &letters, 8);
    if (memchr(&letters, 0, 8) != nullptr) break;
  }
  const int64_t index = status.index.load(std::memory_order_relaxed);
  const std::string step = in_layer(name, status.layer.load(std::memory_order_relaxed));
  return index == 0 ? step : text("%s [%ld]", step.c_str(), long(index));
}

void World::set_awaited(int rank, int stream, Awaited awaited) const {
  status_[rank * shape.streams + stream].awaited.store(awaited, std::memory_order_relaxed);
}

Awaited World::awaited(int rank, int stream) const {
  return status_[rank * shape.streams + stream].awaited.load(std::memory_order_relaxed);
}

// The order of store and load matters: a waiter counts itself before it looks at the word a last time, so that
// one of the two notices the other.
void World::signal(int rank, Word& word, uint32_t value) const {
  word.store(value, std::memory_order_seq_cst);
  if (ranks_[rank].sleepers.load(std::memory_order_seq_cst) > 0) futex_wake_all(word, Scope::Machine);
}

int World::gone_rank() const {
  for (int r = 0; r < shape.ranks; ++r) {
    const int pid = ranks_[r].pid.load(std::memory_order_relaxed);
    if (pid > 0 && kill(pid, 0) != 0 && errno == ESRCH) return r;
  }
  return -1;
}

// Spins for a short time, since most waits are short, then sleeps on the word in slices, and between these
// looks for failures and for ranks whose process is gone.
bool World::wait(int rank, Word& word, uint32_t value, double timeout, const Counts& counts) const {
  for (int spin = 0; spin < spins_; ++spin) {
    if (has_reached(word.load(std::memory_order_acquire), value)) return true;
    relax(spin);
  }
  constexpr int64_t kSlice = 50'000'000;   // how soon a failure elsewhere is noticed
  constexpr int64_t kGrace = 200'000'000;  // for the process that started a rank that is gone, which reports it
  int64_t gone_at = INT64_MAX;
  Patience patience(timeout);
  Word& sleepers = ranks_[rank].sleepers;
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  bool reached = false;
  for (;;) {
    const uint32_t seen = word.load(std::memory_order_seq_cst);
    reached = has_reached(seen, value);
    if (counts && !counts()) patience = Patience(timeout);
    const int64_t left = patience.left();
    if (reached || left <= 0 || has_failed() || now_ns() > gone_at) break;
    if (gone_at == INT64_MAX && gone_rank() >= 0) gone_at = now_ns() + kGrace;
    futex_sleep(word, seen, std::min(left, kSlice), Scope::Machine);
  }
  sleepers.fetch_sub(1, std::memory_order_relaxed);
  if (!reached && has_failed()) throw Failure{failure(), ""};
  if (!reached && now_ns() > gone_at) {
    const int gone = gone_rank();
    throw Failure{kEnvironment, text("rank %d ended without a word: it was killed", gone), gone};
  }
  return reached;
}

bool World::leave_note(int rank, uint64_t key, const char* bytes) const {
  if (!copy_note(rank, key, bytes)) return false;
  if (relay != nullptr) relay->tell_note(key, bytes);
  return true;
}

bool World::copy_note(int rank, uint64_t key, const char* bytes) const {
  for (int i = 0; i < shape.notes; ++i) {
    Note& mine = note(rank, i);
    if (mine.ready.load(std::memory_order_relaxed) != 0) continue;
    mine.key = key;
    memcpy(mine.bytes, bytes, Note::kBytes);
    signal(rank, mine.ready, 1);
    return true;
  }
  return false;
}

const Note* World::find_note(int rank, uint64_t key) const {
  for (int i = 0; i < shape.notes; ++i) {
    const Note& left = note(rank, i);
    if (left.ready.load(std::memory_order_acquire) == 0) return nullptr;
    if (left.key == key) return &left;
  }
  return nullptr;
}

bool World::barrier(double timeout, const Counts& counts) const {
  if (shape.ranks == 1) return true;
  if (relay != nullptr) return relay->barrier(timeout);
  const uint32_t generation = header_->generation.load(std::memory_order_acquire);
  if (header_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == uint32_t(shape.ranks)) {
    header_->arrived.store(0, std::memory_order_relaxed);
    signal(0, header_->generation, generation + 1);
    return true;
  }
  return wait(0, header_->generation, generation + 1, timeout, counts);
}

bool World::set_failure(int rank, int code, const std::string& text) const {
  if (!note_failure(rank, code)) return false;
  if (relay != nullptr) relay->tell_failure(rank, code, text);
  return true;
}

bool World::note_failure(int rank, int code) const {
  uint64_t none = 0;
  return header_->failure.compare_exchange_strong(none, uint64_t(rank + 1) << 32 | uint32_t(code));
}

int World::failure() const { return int(uint32_t(header_->failure.load(std::memory_order_relaxed))); }

std::atomic<uint64_t>& World::build() const { return header_->build; }
std::atomic<uint64_t>& World::socket_node() const { return header_->socket_node; }
Word& World::end_asked() const { return header_->end_asked; }
Word& World::end_agreed() const { return header_->end_agreed; }

}  // namespace weft
