// How the slower link is imitated (link.h): bytes queue up at the link of the rank that takes them in, and its
// streams sleep until a real link would have delivered them.
#include "link.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "failure.h"
#include "wait.h"

namespace weft {

namespace {

constexpr int64_t kShortest = 20'000;   // ns that are worth a sleep
constexpr int64_t kForgiven = 300'000;  // ns that a sleep may end late: more is a machine that has no core for us

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit kBandwidths[] = {{"B/s", 1}, {"KB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"Gbit/s", 1e9 / 8}};
constexpr Unit kTimes[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

/// A number and one of these units; -1 for anything else.
template <size_t n>
double quantity(const std::string& word, const Unit (&units)[n]) {
  const size_t digits = word.find_first_not_of("0123456789.");
  if (digits == 0 || digits == std::string::npos || std::count(word.begin(), word.end(), '.') > 1) return -1;
  for (const Unit& unit : units)
    if (word.substr(digits) == unit.name) return strtod(word.c_str(), nullptr) * unit.factor;
  return -1;
}

}  // namespace

LinkSpeed parse_link(const std::string& text) {
  const size_t comma = text.find(',');
  const double bandwidth = quantity(text.substr(0, comma), kBandwidths);
  const double latency = comma == std::string::npos ? 0 : quantity(text.substr(comma + 1), kTimes);
  constexpr double kSlowest = 1e3, kFastest = 1e15, kLongest = 10e9;
  if (!(bandwidth >= kSlowest && bandwidth <= kFastest) || !(latency >= 0 && latency <= kLongest))
    fail(kUsage,
         "--link %s: BANDWIDTH[,LATENCY] is expected, such as 800MB/s, 1GB/s,50us or 10Gbit/s,1ms (at least 1KB/s, at "
         "most 10s)",
         text.c_str());
  return {bandwidth, int64_t(latency)};
}

// Several streams take turns at one link: a compare-and-swap loop reserves the next piece of its time.
int64_t Link::arrival(int64_t ready_ns, int64_t bytes) {
  const int64_t duration = int64_t(double(bytes) / speed.bytes_per_second * 1e9);
  int64_t free = free_ns_.load(std::memory_order_relaxed);
  int64_t end;
  do end = std::max(ready_ns, free) + duration;
  while (!free_ns_.compare_exchange_weak(free, end, std::memory_order_relaxed));
  return end;
}

void LinkClock::add_latency(const Link& link) {
  ready_ns_ = now_ns() - after_ns_ + link.speed.latency_ns;
  sleep_until(ready_ns_);
}

void LinkClock::receive(Link& link, int64_t bytes) {
  const int64_t end = link.arrival(ready_ns_, bytes);
  sleep_until(std::max(end, now_ns() - after_ns_));
}

void LinkClock::sleep_until(int64_t due_ns) {
  if (due_ns - now_ns() >= kShortest) {
    prctl(PR_SET_TIMERSLACK, 1UL);  // of this thread; the usual 50 us are as long as a small message takes
    const timespec due{due_ns / 1'000'000'000, due_ns % 1'000'000'000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, nullptr) == EINTR) {
    }
  }
  after_ns_ = std::min(now_ns() - due_ns, kForgiven);
}

}  // namespace weft
