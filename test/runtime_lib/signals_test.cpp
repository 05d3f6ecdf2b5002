// Streams, signals between ranks and iterations, fused kernels over the peers, transfers, and waits that end.
#include <atomic>

#include "ranks.h"

using namespace weft;
using weft_test::run_both_ways;
using weft_test::run_ranks;

namespace {

constexpr Axis tp{.name = "tp", .size = 2, .stride = 1, .id = 0};
constexpr int kChunks = 4;
constexpr Signal ready{0, kChunks, tp}, local{ready.end(), kChunks};

}  // namespace

TEST_CASE("signals: chunks flow between streams and ranks, iteration after iteration") {
  std::atomic<int> wrong{0};
  const Window<int64_t> chunks{0, kChunks}, sums{chunks.end(), kChunks};
  const int code = run_ranks({.count = 2, .streams = 2, .iterations = 50}, [&](Rank& r) {
    for (int c = 0; c < kChunks; ++c)
      r.step({0, "produce", ""}, c, [&] {
        r[chunks][c] = 10 * c + r.rank;
        r.signal(ready, c);
      });
    r.step({1, "consume", ""}, [&] {
      const Peers peers = r.peers(tp);
      for (int c = 0; c < kChunks; ++c) {
        peers.wait(ready, c);
        r[sums][c] = *(peers.at(0, chunks.part(c, 1))) + *(peers.at(1, chunks.part(c, 1)));
        wrong += r[sums][c] != 20 * c + 1;
        peers.signal(local, c);
      }
      peers.barrier();  // before a peer writes the next iteration's chunks
    });
    r.step({0, "check", ""}, [&] {
      for (int c = 0; c < kChunks; ++c) {
        r.wait(local, c);
        wrong += r[sums][c] != 20 * c + 1;
      }
    });
  });
  CHECK(code == 0);
  CHECK(wrong == 0);
}

TEST_CASE("signals: a step's body may loop over steps of its stream") {
  std::atomic<int> bodies{0};
  run_ranks({.count = 1, .streams = 3}, [&](Rank& r) {
    r.step({2, "loop", ""}, [&] {
      for (int trip = 0; trip < 5; ++trip) r.step({2, "body", ""}, trip, [&] { ++bodies; });
    });
  });
  CHECK(bodies == 5);
}

TEST_CASE("signals: transfers with strides, copies and two micro-batches in flight") {
  // Ranks 0 and 1 hold halves of the columns of 2 x 4; ranks 1 and 2 want rows: rank 1 is on both sides.
  static constexpr Message kTable[] = {
      {0, 1, 0, 0, {{2, 1, 1}}}, {1, 1, 0, 2, {{2, 1, 1}}}, {0, 2, 2, 0, {{2, 1, 1}}}, {1, 2, 2, 2, {{2, 1, 1}}}};
  constexpr int kBatches = 6;
  constexpr Transfer move{0, kBatches, kTable};
  constexpr Signal sent{move.end(), kBatches}, made{sent.end(), kBatches};
  std::atomic<int> wrong{0};
  const Window<int> from{0, 4 * 2};
  const Own<int> to{0, 4 * kBatches};
  const int code = run_both_ways({.count = 3, .streams = 3, .iterations = 20}, [&](Rank& r) {
    for (int b = 0; b < kBatches; ++b) {
      const auto buffer = from.part(b % 2 * 4, 4);
      if (r.rank < 2) {
        r.step({0, "make", ""}, b, [&] {
          if (b >= 2) r.wait(sent, b - 2);
          for (int i = 0; i < 4; ++i) r[buffer][i] = 100 * b + i / 2 * 4 + r.rank * 2 + i % 2;
          r.signal(made, b);
        });
        r.step({1, "send", ""}, b, [&] {
          r.wait(made, b);
          r.send(move, b, buffer);
          r.signal(sent, b);
        });
      }
      if (r.rank > 0) r.step({2, "recv", ""}, b, [&] { r.recv(move, b, buffer, r[to] + 4 * b); });
    }
    if (r.rank > 0)
      r.step({2, "check", ""}, [&] {
        for (int i = 0; i < 4 * kBatches; ++i) wrong += r[to][i] != 100 * (i / 4) + (r.rank - 1) * 4 + i % 4;
      });
  });
  CHECK(code == 0);
  CHECK(wrong == 0);
}

TEST_CASE("signals: a wait for what never comes ends all ranks") {
  CHECK(run_both_ways({.count = 3, .streams = 2, .timeout = 0.2}, [&](Rank& r) {
          r.step({1, "forgotten", "Add x"}, [&] {
            if (r.rank == 1) r.wait(local, 3);
          });
          r.step({0, "meeting", "Add y"}, [&] { r.barrier(Axis{.name = "all", .size = 3, .stride = 1, .id = 0}); });
        }) == kTimedOut);
}

TEST_CASE("signals: an index outside of its dimension ends all ranks as a wrong input") {
  CHECK(run_ranks({.count = 2}, [&](Rank& r) {
          r.step({0, "cat", ""}, [&] {
            IndexRange looked_up;
            looked_up.add(5);
            r.indices_of("node 'look'").demand(looked_up, r.rank == 0 ? 6 : 5);
            r.barrier(tp);
          });
        }) == kWrongInput);
}
