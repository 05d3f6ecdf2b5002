// Rank 0's end of the relay: takes in the ranks, then passes on what each says.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <list>

#include "tcp_relay.h"
#include "wait.h"

namespace weft {

namespace {

class Hub final : public TcpRelay {
 public:
  Hub(const Job& job, const World& world) : TcpRelay(job, world, 0), lines_(size_t(world.shape.ranks)) {
    arrived_.resize(lines_.size());
    names_[0] = own_hello(job, world);
  }
  ~Hub() override { stop_service(); }

  /// Waits for all ranks, and starts them.
  void gather(const Root& root);

  void deliver(const std::vector<char>& bytes) override;
  std::vector<Delivery> take_deliveries() override;

 protected:
  void arrive(uint32_t number) override { take_arrival(0, number); }
  void serve(int64_t ns) override;
  void send_all(FrameKind kind, int rank, const void* data, size_t bytes) override;
  bool all_ended() const override;
  void finish_all() override;

 private:
  /// A connection that has not introduced itself yet.
  struct Guest {
    std::unique_ptr<Line> line;
    int64_t since_ns;
    int rank = -1;
    std::optional<Hello> hello = {};
    bool is_done = false;
  };

  void wait_for_guests(const Socket& listener);
  void welcome_guests(const Socket& listener);
  void listen_to(Guest& guest);
  void admit(Guest& guest);
  void refuse(Guest& guest, int rank, const Disagreement& why);
  std::vector<int> missing() const;
  void read_lines();
  void look_at(int rank);
  void take(int from, const Frame& frame);
  void take_arrival(int rank, uint32_t number);
  void pass_on(int from, const Frame& frame);

  std::vector<std::unique_ptr<Line>> lines_;  // by rank; none of its own
  std::list<Guest> guests_;
  std::vector<uint32_t> arrived_;  // by rank: barriers it has entered
  std::vector<Delivery> deliveries_;
  int64_t begin_ns_ = 0;
};

std::vector<int> Hub::missing() const {
  std::vector<int> out;
  for (size_t r = 1; r < lines_.size(); ++r)
    if (lines_[r] == nullptr) out.push_back(int(r));
  return out;
}

void Hub::refuse(Guest& guest, int rank, const Disagreement& why) {
  const std::string told = char(why.code) + why.text;
  guest.line->send(FrameKind::Refusal, rank, told.data(), told.size());
  guest.line->finish();
  fail_all(why.code, why.text);
}

void Hub::admit(Guest& guest) {
  const Hello &hello = *guest.hello, &mine = names_[0];
  const std::string host(hello.host, strnlen(hello.host, sizeof hello.host));
  const int rank = guest.rank;
  const std::string name = text("rank %d on %s", rank, host.c_str()), own = text("rank 0 on %s", mine.host);
  if (hello.version != mine.version || hello.ranks != mine.ranks || rank < 1 || rank >= mine.ranks)
    return refuse(guest, 0, {kEnvironment, name + " runs another program than " + own});
  if (Disagreement found = compare(name, hello.agreement, own, mine.agreement); !found.text.empty())
    return refuse(guest, 0, found);
  if (lines_[size_t(rank)] != nullptr)
    return refuse(guest, rank, {kEnvironment, text("rank %d has come twice, now from %s", rank, host.c_str())});
  names_[size_t(rank)] = hello;
  const int64_t now = now_ns();
  guest.line->patience = job_.timeout;
  guest.line->send(FrameKind::Welcome, 0, now);
  lines_[size_t(rank)] = std::move(guest.line);
}

/// A stranger that says nothing, or anything else than a rank does, is shown out.
void Hub::listen_to(Guest& guest) {
  constexpr int64_t kPatience = 5'000'000'000;
  const Line::Got got = guest.line->receive(kSmallFrame, [&](const Frame& frame) {
    guest.rank = frame.rank;
    if (frame.kind == FrameKind::Hello) guest.hello = frame.as<Hello>().value_or(Hello{});  // else of another version
  });
  guest.is_done = got != Line::Got::More || guest.hello || now_ns() - guest.since_ns > kPatience;
  if (got == Line::Got::More && guest.hello) admit(guest);
}

void Hub::welcome_guests(const Socket& listener) {
  constexpr size_t kRoom = 256;
  for (Socket guest; (guest = accept_at(listener)).is_open();) {
    if (guests_.size() == kRoom + lines_.size()) guests_.pop_front();
    guests_.push_back({std::make_unique<Line>(std::move(guest)), now_ns()});
  }
  for (Guest& guest : guests_) listen_to(guest);
  std::erase_if(guests_, [](const Guest& guest) { return guest.is_done; });
}

void Hub::wait_for_guests(const Socket& listener) {
  std::vector<pollfd> all = {{listener.fd(), POLLIN, 0}};
  for (const Guest& guest : guests_) all.push_back({guest.line->fd(), POLLIN, 0});
  for (const auto& line : lines_)
    if (line != nullptr && !line->has_ended) all.push_back({line->fd(), POLLIN, 0});
  poll(all.data(), all.size(), 50);
}

void Hub::gather(const Root& root) {
  const int64_t deadline = now_ns() + int64_t(job_.timeout * 1e9);
  const Socket listener = listen_at(root);
  while (!missing().empty() && !world_.has_failed()) {
    if (now_ns() > deadline) {
      std::string absent;
      for (const int rank : missing()) absent += (absent.empty() ? "" : ", ") + std::to_string(rank);
      fail_all(kTimedOut, text("waited %g s at port %d (%s) for ranks that did not come: %s", job_.timeout, root.port,
                               root.source.c_str(), absent.c_str()));
      break;
    }
    wait_for_guests(listener);
    welcome_guests(listener);
    read_lines();
  }
  guests_.clear();
  if (world_.has_failed()) throw Failure{world_.failure(), ""};
  begin_ns_ = now_ns();
  send_all(FrameKind::Start, 0, names_.data(), names_.size() * sizeof names_[0]);
  start_service();
}

void Hub::send_all(FrameKind kind, int rank, const void* data, size_t bytes) {
  for (size_t r = 1; r < lines_.size(); ++r)
    if (lines_[r] != nullptr && int(r) != rank && !lines_[r]->has_ended) lines_[r]->send(kind, rank, data, bytes);
}

void Hub::pass_on(int from, const Frame& frame) { send_all(frame.kind, from, frame.data, frame.bytes); }

void Hub::deliver(const std::vector<char>& bytes) {
  const std::lock_guard guard(mutex_);
  deliveries_.push_back({0, bytes});
}

std::vector<Delivery> Hub::take_deliveries() {
  const std::lock_guard guard(mutex_);
  return std::exchange(deliveries_, {});
}

void Hub::take_arrival(int rank, uint32_t number) {
  {
    const std::lock_guard guard(mutex_);
    arrived_[size_t(rank)] = number;
    for (const uint32_t other : arrived_)
      if (int32_t(other - number) < 0) return;
  }
  send_all(FrameKind::Go, 0, &number, sizeof number);
  end_barrier(number);
}

void Hub::take(int from, const Frame& frame) {
  if (frame.rank != from) return;
  switch (frame.kind) {
    case FrameKind::Status:
      take_status(frame);
      return pass_on(from, frame);
    case FrameKind::Note:
      take_note(frame);
      return pass_on(from, frame);
    case FrameKind::Failure:
      pass_on(from, frame);
      return take_failure(frame);
    case FrameKind::Bye:
      lines_[size_t(from)]->said_bye = true;
      return;
    case FrameKind::Delivery: {
      const std::lock_guard guard(mutex_);
      deliveries_.push_back({from, {frame.data, frame.data + frame.bytes}});
      return;
    }
    case FrameKind::Barrier:
      if (const std::optional<Arrival> arrival = frame.as<Arrival>()) {
        world_.rank(from).peak_bytes.store(arrival->peak_bytes);
        world_.rank(from).device_bytes.store(arrival->device_bytes);
        world_.rank(from).received_bytes.store(arrival->received_bytes);
        for (size_t i = 0; i < RankSlot::kFileSums; ++i) world_.rank(from).file_sums[i].store(arrival->file_sums[i]);
        take_arrival(from, arrival->number);
      }
      return;
    default:
      return;
  }
}

void Hub::look_at(int rank) {
  Line& line = *lines_[size_t(rank)];
  const Line::Got got = line.receive(most_bytes(), [&](const Frame& frame) { take(rank, frame); });
  if (line.is_amid()) busy_ns_ = now_ns();
  if (got == Line::Got::End && !line.said_bye)
    fail_all(kEnvironment,
             text("%s ended without a word: it was killed, or its machine is down", name_of(rank).c_str()));
  if (got == Line::Got::Nonsense) fail_all(kEnvironment, text("%s sends what no rank sends", name_of(rank).c_str()));
  if (begin_ns_ > 0 && !line.has_ended &&
      now_ns() - std::max({begin_ns_, line.heard_ns(), awake_ns()}) > silence_ns(job_))
    fail_all(kTimedOut, text("nothing was heard of %s for %g s: its machine or the way to it is down",
                             name_of(rank).c_str(), double(silence_ns(job_)) / 1e9));
}

void Hub::read_lines() {
  for (size_t r = 1; r < lines_.size(); ++r)
    if (lines_[r] != nullptr && !lines_[r]->has_ended) look_at(int(r));
}

void Hub::serve(int64_t ns) {
  std::vector<pollfd> all;
  for (const auto& line : lines_)
    if (line != nullptr && !line->has_ended) all.push_back({line->fd(), POLLIN, 0});
  poll(all.data(), all.size(), int(ns / 1'000'000));
  read_lines();
}

bool Hub::all_ended() const {
  return std::all_of(lines_.begin(), lines_.end(), [](const auto& line) { return line == nullptr || line->has_ended; });
}

void Hub::finish_all() {
  for (const auto& line : lines_)
    if (line != nullptr && !line->has_ended) line->finish();
}

}  // namespace

std::unique_ptr<Relay> join_as_hub(const Job& job, const World& world, const Root& root) {
  auto hub = std::make_unique<Hub>(job, world);
  hub->gather(root);
  return hub;
}

}  // namespace weft
