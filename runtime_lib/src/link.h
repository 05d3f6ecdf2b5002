// A slower link between the ranks than shared memory is: for tests, and to see what overlap hides.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

namespace weft {

/// What --link asks for: of each rank's link, in each direction. No bandwidth: as fast as the memory is.
struct LinkSpeed {
  double bytes_per_second = 0;
  int64_t latency_ns = 0;
  bool is_limited() const { return bytes_per_second > 0; }
};

/// Reads "BANDWIDTH[,LATENCY]", such as "1GB/s" or "10Gbit/s,50us". Throws Failure (usage).
LinkSpeed parse_link(const std::string& text);

/// The link of one rank, shared by its streams: what it takes in arrives one after the other.
class Link {
 public:
  explicit Link(const LinkSpeed& speed) : speed(speed) {}
  /// When `bytes` that were there to be taken from `ready_ns` on have arrived.
  int64_t arrival(int64_t ready_ns, int64_t bytes);

  const LinkSpeed speed;
  std::atomic<int64_t> received_bytes{0};  // so far, whatever the speed

 private:
  std::atomic<int64_t> free_ns_{0};
};

/// One stream's time over a link. A stream sleeps until what it takes would have come, and leaves the core to those who
/// compute. How late a sleep ended is taken off what comes next, and what is too short for a sleep is added to it: so
/// the rate holds over many messages.
class LinkClock {
 public:
  /// A message or a barrier between ranks has ended: its latency passes.
  void add_latency(const Link& link);
  /// `bytes` have come from peers since the last latency.
  void receive(Link& link, int64_t bytes);

 private:
  void sleep_until(int64_t due_ns);

  int64_t ready_ns_ = 0;   // the end of the last latency, in the link's time
  int64_t behind_ns_ = 0;  // the machine's time less the link's
};

}  // namespace weft
