// The relay between machines: ranks are threads here, each with a copy of the segment of its own.
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <latch>
#include <thread>

#include "runtime_lib/cuda/relay_line.h"
#include "runtime_lib/src/open_relay.h"

using namespace weft;

namespace {

constexpr WorldShape kShape{.ranks = 3, .streams = 2, .staging_bytes = 1 << 20, .notes = 8};

/// A port that nobody listens at.
int free_port() {
  const Socket probe = listen_at({"", 0, "a test"});
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  getsockname(probe.fd(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(reinterpret_cast<sockaddr_in6&>(address).sin6_port);  // where IPv4 has it, too
}

/// The outcome of a rank: "" if it succeeded.
using Body = std::function<void(const World&, Relay&, int rank)>;

std::string run_one(const Body& body, const std::string& root, int rank, double timeout) {
  const size_t bytes = size_t(World::bytes_of(kShape));
  const std::unique_ptr<char, void (*)(void*)> memory(static_cast<char*>(aligned_alloc(kPage, bytes)), free);
  memset(memory.get(), 0, bytes);
  World world(kShape, memory.get());
  try {
    const std::unique_ptr<Relay> relay =
        open_relay({"test", agreement_of(7, kShape), timeout}, world, {rank, kShape.ranks, "", ""}, root);
    world.relay = relay.get();
    body(world, *relay, rank);
    relay->close();
    return "";
  } catch (const Failure& failure) {
    return text("exit %d %s", failure.code, failure.text.c_str());
  }
}

std::vector<std::string> run_all(double timeout, const Body& body) {
  const std::string root = text("localhost:%d", free_port());
  std::vector<std::string> out(size_t(kShape.ranks));
  std::vector<std::thread> ranks;
  for (int r = 0; r < kShape.ranks; ++r)
    ranks.emplace_back([&, r] { out[size_t(r)] = run_one(body, root, r, timeout); });
  for (std::thread& rank : ranks) rank.join();
  return out;
}

}  // namespace

TEST_CASE("cuda relay: barriers, notes, figures, deliveries") {
  constexpr int kMeetings = 200;
  std::atomic<int> arrived{0}, wrong{0};
  const auto body = [&](const World& world, Relay& relay, int rank) {
    for (int i = 1; i <= kMeetings; ++i) {
      arrived.fetch_add(1);
      wrong += !world.barrier(20);
      wrong += arrived.load() < i * kShape.ranks;
      wrong += !world.barrier(20);
    }
    char bytes[Note::kBytes] = {};
    bytes[0] = char('a' + rank);
    wrong += !world.leave_note(rank, uint64_t(100 + rank), bytes);
    world.rank(rank).peak_bytes = 1000 + rank;
    if (rank != 0) relay.deliver(std::vector<char>(size_t(rank) << 24, char(rank)));
    wrong += !world.barrier(20);
    for (int r = 0; r < kShape.ranks; ++r) {
      while (world.find_note(r, uint64_t(100 + r)) == nullptr) usleep(100);
      wrong += world.find_note(r, uint64_t(100 + r))->bytes[0] != 'a' + r;
    }
    wrong += relay.local_rank() != rank;
    if (rank != 0) return;
    for (int r = 1; r < kShape.ranks; ++r) wrong += world.rank(r).peak_bytes.load() != 1000 + r;
    const std::vector<Delivery> deliveries = relay.take_deliveries();
    wrong += deliveries.size() != 2;
    for (const Delivery& d : deliveries)
      wrong += d.bytes.size() != size_t(d.from) << 24 || d.bytes.back() != char(d.from);
  };
  for (const std::string& end : run_all(20, body)) CHECK(end == "");
  CHECK(wrong == 0);
}

TEST_CASE("cuda relay: a failure on one rank is every rank's") {
  for (int failing = 0; failing < kShape.ranks; ++failing) {
    const auto body = [&](const World& world, Relay&, int rank) {
      world.barrier(20);
      if (rank == failing) world.set_failure(rank, 3, "a reason");
      while (true) world.barrier(20);
    };
    for (const std::string& end : run_all(20, body)) CHECK(end == "exit 3 ");
  }
}

TEST_CASE("cuda relay: a barrier is bounded") {
  std::latch both_waited(2);  // one that leaves first would be what the other ends of
  const auto body = [&](const World& world, Relay&, int rank) {
    if (rank == 2) return;
    const bool all_came = world.barrier(0.3);
    both_waited.arrive_and_wait();
    if (!all_came) fail(kTimedOut, "nobody came");
  };
  const std::vector<std::string> ends = run_all(5, body);
  CHECK(ends[0].starts_with("exit 124"));
  CHECK(ends[1].starts_with("exit 124"));
}

TEST_CASE("cuda relay: frames come whole and in order, and nonsense is known by its first bytes") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  Line left{Socket(ends[0])}, right{Socket(ends[1])};
  constexpr size_t kLarge = 3 << 20;
  std::thread sender([&] {
    for (int i = 0; i < 50; ++i)
      left.send(FrameKind::Barrier, i, std::vector<char>(size_t(i) * 7, 'x').data(), size_t(i) * 7);
    left.send(FrameKind::Delivery, 1, std::vector<char>(kLarge, 'y').data(), kLarge);
    left.send(FrameKind::Bye, 2, nullptr, 0);
  });
  int next = 0;
  size_t large = 0;
  bool is_over = false;
  while (!is_over) {
    wait_readable(right.fd(), 1'000'000'000);
    right.receive(kLarge, [&](const Frame& frame) {
      if (frame.kind == FrameKind::Barrier) next += frame.rank == next && frame.bytes == size_t(next) * 7;
      if (frame.kind == FrameKind::Delivery) large = frame.bytes;
      is_over = frame.kind == FrameKind::Bye;
    });
  }
  sender.join();
  CHECK(next == 50);
  CHECK(large == kLarge);
  const auto nothing = [](const Frame&) { CHECK(false); };
  left.send(FrameKind::Note, 0, "12345678", 8);
  CHECK(right.receive(4, nothing) == Line::Got::Nonsense);  // larger than it may be
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  const Socket stranger(ends[0]);
  Line other{Socket(ends[1])};
  REQUIRE(write(stranger.fd(), "WE", 2) == 2);
  CHECK(other.receive(4, nothing) == Line::Got::More);
  REQUIRE(write(stranger.fd(), "b", 1) == 1);
  CHECK(other.receive(4, nothing) == Line::Got::Nonsense);
}
