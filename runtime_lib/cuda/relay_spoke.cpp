// Every other rank's end of the relay.
#include <unistd.h>

#include <algorithm>

#include "tcp_relay.h"
#include "wait.h"

namespace weft {

namespace {

class Spoke final : public TcpRelay {
 public:
  Spoke(const Job& job, const World& world, int rank, const Root& root)
      : TcpRelay(job, world, rank), root_(root), deadline_(now_ns() + int64_t(job.timeout * 1e9)) {
    names_[size_t(rank)] = own_hello(job, world);
  }
  ~Spoke() override { stop_service(); }

  /// Finds rank 0, and waits until it has all ranks.
  void join();

  void deliver(const std::vector<char>& bytes) override;
  std::vector<Delivery> take_deliveries() override { return {}; }

 protected:
  void arrive(uint32_t number) override;
  void serve(int64_t ns) override;
  void send_all(FrameKind kind, int rank, const void* data, size_t bytes) override;
  bool all_ended() const override { return line_->has_ended; }
  void finish_all() override { line_->finish(); }

 private:
  bool knock();
  bool wait_for_welcome();
  void wait_for_start();
  void take(const Frame& frame);

  const Root root_;
  const int64_t deadline_;
  std::unique_ptr<Line> line_;
  std::string why_;  // the last attempt failed
  bool is_welcome_ = false, is_started_ = false;
  int64_t asked_ns_ = 0;
  std::string refusal_;  // its exit code as one letter, and the text
};

/// One attempt to be let in.
bool Spoke::knock() {
  Socket socket = dial(root_, deadline_, why_);
  if (!socket.is_open()) return false;
  line_ = std::make_unique<Line>(std::move(socket));
  line_->patience = job_.timeout;
  asked_ns_ = now_ns();
  if (!line_->send(FrameKind::Hello, rank_, names_[size_t(rank_)])) return why_ = "the connection broke", false;
  return wait_for_welcome();
}

bool Spoke::wait_for_welcome() {
  while (now_ns() < deadline_) {
    serve(50'000'000);
    if (!refusal_.empty())
      fail(refusal_[0], "rank %d is refused by rank 0 at %s: %s", rank_, root_.text().c_str(), refusal_.c_str() + 1);
    if (is_welcome_) return true;
    if (line_->has_ended) return why_ = "the connection was closed", false;
  }
  return why_ = "no answer", false;
}

void Spoke::wait_for_start() {
  const int64_t patience = 2'000'000'000;  // rank 0 knows better who is missing
  while (!is_started_ && !world_.has_failed()) {
    serve(50'000'000);
    if (is_started_ || world_.has_failed()) break;
    if (line_->has_ended) fail_all(kEnvironment, text("rank 0 at %s ended without a word", root_.text().c_str()));
    if (now_ns() > deadline_ + patience)
      fail_all(kTimedOut, text("waited %g s for all ranks to come to %s (%s)", job_.timeout, root_.text().c_str(),
                               root_.source.c_str()));
  }
  if (!is_started_) throw Failure{world_.failure(), ""};
}

void Spoke::join() {
  while (!knock()) {
    if (world_.has_failed()) throw Failure{world_.failure(), ""};
    if (now_ns() > deadline_)
      fail(kTimedOut, "rank %d waited %g s for rank 0 at %s (%s): %s", rank_, job_.timeout, root_.text().c_str(),
           root_.source.c_str(), why_.c_str());
    usleep(100'000);
  }
  wait_for_start();
  start_service();
}

void Spoke::send_all(FrameKind kind, int rank, const void* data, size_t bytes) { line_->send(kind, rank, data, bytes); }

void Spoke::deliver(const std::vector<char>& bytes) {
  if (!line_->send(FrameKind::Delivery, rank_, bytes.data(), bytes.size()))
    fail(kEnvironment, "rank 0 at %s is gone", root_.text().c_str());
}

void Spoke::arrive(uint32_t number) { line_->send(FrameKind::Barrier, rank_, arrival(number)); }

void Spoke::take(const Frame& frame) {
  if (frame.rank < 0 || frame.rank >= world_.shape.ranks) return;
  switch (frame.kind) {
    case FrameKind::Welcome:
      if (const std::optional<int64_t> there = frame.as<int64_t>()) {
        clock_offset_ = *there - (asked_ns_ + now_ns()) / 2;
        is_welcome_ = true;
      }
      return;
    case FrameKind::Refusal:
      refusal_.assign(frame.data, frame.bytes);
      return;
    case FrameKind::Start:
      if (frame.bytes != names_.size() * sizeof names_[0]) return;
      memcpy(names_.data(), frame.data, frame.bytes);
      is_started_ = true;
      return;
    case FrameKind::Beat:
      if (frame.bytes == 1 && *frame.data != 0) busy_ns_ = now_ns();
      return;
    case FrameKind::Status:
      return take_status(frame);
    case FrameKind::Note:
      return take_note(frame);
    case FrameKind::Failure:
      return take_failure(frame);
    case FrameKind::Go:
      if (const std::optional<uint32_t> number = frame.as<uint32_t>()) end_barrier(*number);
      return;
    case FrameKind::Bye:
      line_->said_bye = true;
      return;
    default:
      return;
  }
}

/// Before the start nothing else handles errors of the connection.
void Spoke::serve(int64_t ns) {
  const size_t most = size_t(world_.shape.ranks) * sizeof(Hello) + kSmallFrame;
  if (line_->has_ended) return void(usleep(useconds_t(ns / 1000)));
  wait_readable(line_->fd(), ns);
  const Line::Got got = line_->receive(most, [&](const Frame& frame) { take(frame); });
  if (got == Line::Got::Nonsense)
    fail_all(kEnvironment,
             text("what answers at %s (%s) is not rank 0 of this program", root_.text().c_str(), root_.source.c_str()));
  if (!is_started_) return;
  if (got == Line::Got::End && !line_->said_bye)
    fail_all(kEnvironment, text("%s ended without a word: it was killed, or its machine is down", name_of(0).c_str()));
  if (now_ns() - std::max(line_->heard_ns(), awake_ns()) > silence_ns(job_))
    fail_all(kTimedOut, text("nothing was heard of %s for %g s: its machine or the way to it is down",
                             name_of(0).c_str(), double(silence_ns(job_)) / 1e9));
}

}  // namespace

std::unique_ptr<Relay> join_as_spoke(const Job& job, const World& world, int rank, const Root& root) {
  auto spoke = std::make_unique<Spoke>(job, world, rank, root);
  spoke->join();
  return spoke;
}

}  // namespace weft
