// --link: what it accepts, that it takes the time it says and no core, and that it changes no bit.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <mutex>

#include "ranks.h"
#include "runtime_lib/src/failure.h"

using namespace weft;
using weft_test::Ranks;
using weft_test::run_ranks;

namespace {

constexpr Axis kTwo{.name = "tp", .size = 2, .stride = 1, .id = 0};

double thread_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Taken {
  double seconds = 0, core_seconds = 0;
};

/// Runs `body` on two ranks over a link; what rank 0 needed.
Taken time_over(const LinkSpeed& link, const weft_test::Body& body) {
  Taken out;
  const int code = run_ranks({.count = 2, .link = link}, [&](Rank& r) {
    const auto begin = std::chrono::steady_clock::now();
    const double core = thread_seconds();
    body(r);
    if (r.rank != 0) return;
    out = {std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), thread_seconds() - core};
  });
  CHECK(code == 0);
  return out;
}

}  // namespace

TEST_CASE("link: bandwidth and latency as text") {
  const auto check = [](const char* text, double bytes_per_second, int64_t latency_ns) {
    const LinkSpeed speed = parse_link(text);
    CHECK(speed.bytes_per_second == doctest::Approx(bytes_per_second));
    CHECK(speed.latency_ns == latency_ns);
  };
  check("1GB/s", 1e9, 0);
  check("12.5MB/s,50us", 12.5e6, 50'000);
  check("10Gbit/s,1.5ms", 1.25e9, 1'500'000);
  check("64KB/s,200ns", 64e3, 200);
  check("4000000B/s,0s", 4e6, 0);
  for (const char* wrong : {"1", "GB/s", "1 GB/s", "1gb/s", "0GB/s", "-1GB/s", "1.2.3GB/s", "inf", "1e99GB/s", "5B/s",
                            "1GB/s,", "1GB/s,50", "1GB/s,50us,1us", "1GB/s,11s", ",50us"}) {
    try {
      parse_link(wrong);
      FAIL_CHECK(wrong);
    } catch (const Failure& failure) {
      CHECK(failure.code == kUsage);
    }
  }
}

TEST_CASE("link: what comes from peers takes its time and no core") {
  constexpr Window<float> kPart{0, 250'000};  // 1 MB
  const auto reduce = [&](Rank& r) {
    r.all_reduce(kTwo, ReduceOp::Sum, kPart, r[Own<float>{0, kPart.count}], kPart.count);
  };
  const Taken slow = time_over({.bytes_per_second = 10e6}, reduce);
  CHECK(slow.seconds > 0.0999);
  CHECK(slow.core_seconds < time_over({}, reduce).core_seconds + 0.05);
  const auto gather = [&](Rank& r) {
    r.all_gather(kTwo, kPart, r[Own<float>{0, 2 * kPart.count}],
                 {.dims = {{kPart.count, 1, 1}}, .dst_by_peer = {kPart.count}});
  };
  CHECK(time_over({.bytes_per_second = 10e6}, gather).seconds > 0.0999);
  const auto fused = [&](Rank& r) {
    const Peers peers = r.peers(kTwo);
    peers.barrier();
    peers.received<float>(kPart.count);
    peers.barrier();
  };
  CHECK(time_over({.bytes_per_second = 10e6}, fused).seconds > 0.0999);
}

TEST_CASE("link: every barrier has its latency") {
  const auto meet = [](Rank& r) {
    for (int i = 0; i < 5; ++i) r.barrier(kTwo);
  };
  CHECK(time_over({.bytes_per_second = 1e9, .latency_ns = 10'000'000}, meet).seconds > 0.0499);
}

TEST_CASE("link: messages too short to sleep for add up") {
  constexpr Window<float> kSmall{0, 250};  // 1 KB: 10 us at this rate
  const auto many = [&](Rank& r) {
    for (int i = 0; i < 2000; ++i)
      r.all_reduce(kTwo, ReduceOp::Sum, kSmall, r[Own<float>{0, kSmall.count}], kSmall.count);
  };
  CHECK(time_over({.bytes_per_second = 100e6}, many).seconds > 0.0195);
}

TEST_CASE("link: streams of a rank share it") {
  constexpr Window<float> kPart{0, 125'000};  // 500 KB
  std::mutex mutex;
  double longest = 0;
  const int code = run_ranks({.count = 2, .streams = 2, .link = {.bytes_per_second = 10e6}}, [&](Rank& r) {
    const auto begin = std::chrono::steady_clock::now();
    r.all_reduce(kTwo, ReduceOp::Sum, kPart, r[Own<float>{r.stream * 4 * kPart.count, kPart.count}], kPart.count);
    const std::lock_guard lock(mutex);
    longest = std::max(longest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  });
  CHECK(code == 0);
  CHECK(longest > 0.08);  // one after the other; the second may start a little later
}

TEST_CASE("link: the same bits as without") {
  constexpr int64_t kCount = 40'000;
  constexpr Window<float> kPart{0, kCount}, kSum{kPart.end(), kCount};
  std::vector<float> sums[2];
  for (const LinkSpeed& link : {LinkSpeed{}, LinkSpeed{.bytes_per_second = 50e6, .latency_ns = 30'000}}) {
    const int code = run_ranks({.count = 2, .link = link}, [&](Rank& r) {
      for (int64_t i = 0; i < kCount; ++i) r[kPart][i] = std::sin(float(i + 1000 * r.rank));
      r.all_reduce(kTwo, ReduceOp::Sum, kPart, kSum, kCount);
      if (r.rank == 0) sums[link.is_limited()].assign(r[kSum], r[kSum] + kCount);
    });
    CHECK(code == 0);
  }
  REQUIRE(sums[0].size() == size_t(kCount));
  CHECK(memcmp(sums[0].data(), sums[1].data(), sizeof(float) * kCount) == 0);
}
