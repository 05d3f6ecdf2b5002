// The parts of the relay that rank 0 (relay_hub.cpp) and the others (relay_spoke.cpp) share: the service thread,
// barriers, and the copies of other ranks' state. These copies lie in this process's segment, where the rest of the
// runtime reads them as on one machine.
#include "tcp_relay.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "wait.h"

namespace weft {

namespace {

constexpr uint32_t kVersion = 3;
constexpr int64_t kTurn = 50'000'000;  // of the service, ns

/// The head of a Status frame; the step's name follows.
struct StatusHead {
  int32_t stream;
  Awaited awaited;
};

/// The head of a Failure frame; its text follows.
struct FailureHead {
  int32_t code;
};

struct NoteFrame {
  uint64_t key;
  char bytes[Note::kBytes];
};

constexpr size_t kMostBeside = size_t{1} << 30;  // traces

void copy_text(const std::string& from, char* to, size_t size) {
  const size_t kept = std::min(from.size(), size - 1);
  std::fill(std::copy_n(from.data(), kept, to), to + size, '\0');
}

std::string boot_id() {
  char line[64] = {};
  FILE* file = fopen("/proc/sys/kernel/random/boot_id", "r");
  if (file == nullptr) return "";
  const bool is_read = fgets(line, sizeof line, file) != nullptr;
  fclose(file);
  return is_read ? line : "";
}

}  // namespace

Hello own_hello(const Job& job, const World& world) {
  Hello out = {kVersion, world.shape.ranks, job.agreement, {}, {}};
  char host[sizeof out.host] = {};
  if (gethostname(host, sizeof host - 1) != 0) strcpy(host, "?");
  copy_text(host, out.host, sizeof out.host);
  // Containers of one machine have names of their own, and GPUs of their own.
  copy_text(std::string(host) + " " + boot_id(), out.machine, sizeof out.machine);
  return out;
}

TcpRelay::TcpRelay(const Job& job, const World& world, int rank)
    : job_(job), world_(world), rank_(rank), names_(size_t(world.shape.ranks)), told_(size_t(world.shape.streams)) {}

TcpRelay::~TcpRelay() { stop_service(); }

int TcpRelay::local_rank() const {
  int before = 0;
  for (int r = 0; r < rank_; ++r) before += strcmp(names_[size_t(r)].machine, names_[size_t(rank_)].machine) == 0;
  return before;
}

std::string TcpRelay::name_of(int rank) const {
  const char* host = names_[size_t(rank)].host;
  return *host == '\0' ? text("rank %d", rank) : text("rank %d on %s", rank, host);
}

size_t TcpRelay::most_bytes() const { return size_t(world_.shape.staging_bytes) + kMostBeside; }

int64_t TcpRelay::awake_ns() {
  constexpr int64_t kLongestTurn = 1'000'000'000;
  const int64_t now = now_ns();
  if (now - looked_ns_ > kLongestTurn) awake_ns_ = now;
  looked_ns_ = now;
  return awake_ns_;
}

TcpRelay::Arrival TcpRelay::arrival(uint32_t number) const {
  const RankSlot& mine = world_.rank(rank_);
  Arrival out = {number, mine.peak_bytes.load(), mine.device_bytes.load(), mine.received_bytes.load(), {}};
  for (size_t i = 0; i < RankSlot::kFileSums; ++i) out.file_sums[i] = mine.file_sums[i].load();
  return out;
}

void TcpRelay::end_barrier(uint32_t number) {
  const std::lock_guard guard(mutex_);
  ended_ = number;
  changed_.notify_all();
}

/// The barrier of all ranks. While bytes of a delivery are in flight somewhere, the others wait for longer.
bool TcpRelay::barrier(double timeout) {
  if (world_.has_failed()) throw Failure{world_.failure(), ""};
  const uint32_t number = ++barriers_;
  Patience patience(timeout);
  int64_t busy = busy_ns_.load();
  arrive(number);
  std::unique_lock lock(mutex_);
  while (int32_t(ended_ - number) < 0) {
    if (world_.has_failed()) throw Failure{world_.failure(), ""};
    if (const int64_t now = busy_ns_.load(); now != busy) busy = now, patience = Patience(timeout);
    if (patience.is_over()) return false;
    changed_.wait_for(lock, std::chrono::nanoseconds(kTurn));
  }
  return true;
}

void TcpRelay::tell_failure(int rank, int code, const std::string& why) {
  const FailureHead head{code};
  std::vector<char> data(sizeof head + std::min(why.size(), kSmallFrame / 2));
  memcpy(data.data(), &head, sizeof head);
  memcpy(data.data() + sizeof head, why.data(), data.size() - sizeof head);
  send_all(FrameKind::Failure, rank, data.data(), data.size());
}

void TcpRelay::tell_note(uint64_t key, const char* bytes) {
  NoteFrame note{key, {}};
  memcpy(note.bytes, bytes, sizeof note.bytes);
  send_all(FrameKind::Note, rank_, &note, sizeof note);
}

void TcpRelay::take_status(const Frame& frame) const {
  StatusHead head = {};
  if (frame.bytes < sizeof head) return;
  memcpy(&head, frame.data, sizeof head);
  if (head.stream < 0 || head.stream >= world_.shape.streams) return;
  const std::string step(frame.data + sizeof head, frame.bytes - sizeof head);
  world_.set_status(frame.rank, head.stream, step.c_str(), 0);
  world_.set_awaited(frame.rank, head.stream, head.awaited);
}

void TcpRelay::take_note(const Frame& frame) const {
  const std::optional<NoteFrame> note = frame.as<NoteFrame>();
  if (note) world_.copy_note(frame.rank, note->key, note->bytes);
}

/// Notes another rank's failure. It is printed once on each machine, because their outputs may go to different
/// places.
void TcpRelay::take_failure(const Frame& frame) {
  FailureHead head = {};
  if (frame.bytes < sizeof head) return;
  memcpy(&head, frame.data, sizeof head);
  const std::string why(frame.data + sizeof head, frame.bytes - sizeof head);
  if (!world_.note_failure(frame.rank, head.code)) return;
  const bool is_elsewhere = strcmp(names_[size_t(frame.rank)].machine, names_[size_t(rank_)].machine) != 0;
  if (is_elsewhere && local_rank() == 0)
    fprintf(stderr, "%s: rank %d: ends with %s: %s\n", job_.program, rank_, name_of(frame.rank).c_str(), why.c_str());
  changed_.notify_all();
}

void TcpRelay::fail_all(int code, const std::string& why) {
  if (is_closing_ || !world_.note_failure(rank_, code)) return;
  tell_failure(rank_, code, why);
  fprintf(stderr, "%s: rank %d: error: %s\n", job_.program, rank_, why.c_str());
  changed_.notify_all();
}

void TcpRelay::start_service() {
  service_ = std::thread([this] { run_service(); });
}

void TcpRelay::stop_service() {
  stops_ = true;
  if (service_.joinable()) service_.join();
}

void TcpRelay::run_service() {
  while (!stops_) {
    serve(std::min(kTurn, beat_ns(job_)));
    say_alive();
    end_late_process();
  }
}

// Large jobs send it less often, since all of these frames go through rank 0.
void TcpRelay::say_alive() {
  const int64_t now = now_ns(), rare = 1 + world_.shape.ranks / 32;
  if (now - said_ns_ < rare * beat_ns(job_) / 4) return;
  said_ns_ = now;
  for (int s = 0; s < world_.shape.streams; ++s) tell_status(s);
  const char busy = now - busy_ns_.load() < beat_ns(job_);
  send_all(FrameKind::Beat, rank_, &busy, sizeof busy);
}

void TcpRelay::tell_status(int stream) {
  const std::string step = world_.status(rank_, stream);
  const StatusHead head{stream, world_.awaited(rank_, stream)};
  const std::string news = text("%d %s", int(head.awaited), step.c_str());
  if (news == told_[size_t(stream)]) return;
  told_[size_t(stream)] = news;
  std::vector<char> data(sizeof head + step.size());
  memcpy(data.data(), &head, sizeof head);
  memcpy(data.data() + sizeof head, step.data(), step.size());
  send_all(FrameKind::Status, rank_, data.data(), data.size());
}

/// Ends the process some time after a failure, because the main thread may wait inside a library for a rank
/// that is gone.
void TcpRelay::end_late_process() {
  constexpr int64_t kGrace = 2'000'000'000;
  if (!world_.has_failed()) return;
  if (failed_ns_ == 0) failed_ns_ = now_ns();
  if (now_ns() - failed_ns_ > kGrace) _exit(world_.failure());
}

/// The orderly end. Both ends read until the other has closed, so that nothing that was sent is lost.
void TcpRelay::close() {
  constexpr int64_t kGrace = 2'000'000'000;
  is_closing_ = true;
  send_all(FrameKind::Bye, rank_, nullptr, 0);
  stop_service();
  finish_all();
  for (const int64_t end = now_ns() + kGrace; !all_ended() && now_ns() < end;) serve(kTurn);
}

const bool kRelayAlways = false;

std::unique_ptr<Relay> open_relay(const Job& job, const World& world, const Launched& launched,
                                  const std::string& flag) {
  const Root root = find_root(flag, launched, getenv);
  return launched.rank == 0 ? join_as_hub(job, world, root) : join_as_spoke(job, world, launched.rank, root);
}

}  // namespace weft
