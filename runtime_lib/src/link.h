// A simulated link between the ranks that is slower than shared memory, for tests and to measure the effect of overlap.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

namespace weft {

/// The values of --link, for each rank's link in each direction. Without a bandwidth it is as fast as memory.
struct LinkSpeed {
  double bytes_per_second = 0;
  int64_t latency_ns = 0;
  bool is_limited() const { return bytes_per_second > 0; }
};

/// Reads "BANDWIDTH[,LATENCY]", such as "1GB/s" or "10Gbit/s,50us". Throws Failure (usage).
LinkSpeed parse_link(const std::string& text);

/// The link of one rank, shared by its streams: messages arrive in sequence.
class Link {
 public:
  explicit Link(const LinkSpeed& speed) : speed(speed) {}
  /// The time at which `bytes` that are available from `ready_ns` on have arrived.
  int64_t arrival(int64_t ready_ns, int64_t bytes);

  const LinkSpeed speed;
  std::atomic<int64_t> received_bytes{0};  // so far, at any speed

 private:
  std::atomic<int64_t> free_ns_{0};
};

/// The time of one stream on a link. A stream sleeps until its data would have arrived, which leaves the core to
/// computation. Oversleeping shortens the next sleep, and times too short for a sleep are added to it, so that the
/// average rate is exact.
class LinkClock {
 public:
  /// Called after a message or a barrier between ranks: waits for its latency.
  void add_latency(const Link& link);
  /// Called after `bytes` were received from peers since the last latency: waits until they would have arrived.
  void receive(Link& link, int64_t bytes);

 private:
  void sleep_until(int64_t due_ns);

  int64_t ready_ns_ = 0;  // the end of the last latency, in the link's time
  int64_t after_ns_ = 0;  // the machine's time minus the link's
};

}  // namespace weft
