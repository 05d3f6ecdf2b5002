// Collectives on machines: NCCL's model against figures that were worked out by hand and against published
// measurements, measured curves between their points, groups by level.
#include "passes/cost/machine.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>

#include "ir/base/text.h"

using namespace weftc;

namespace {

constexpr int64_t kKi = 1024, kMi = 1024 * kKi, kGi = 1024 * kMi;

NetworkLevel nvlink(int ranks, double bandwidth, bool multicast = false) {
  return {"nvlink", ranks, Link::NvLink, bandwidth, 0, multicast, {}};
}
NetworkLevel cards(int ranks, double of_a_rank) { return {"network", ranks, Link::Network, of_a_rank, 0, false, {}}; }

Machine nccl_machine(const std::string& arch, std::vector<NetworkLevel> levels) {
  Machine made;
  made.is_device = made.uses_nccl = true;
  made.archs = {arch};
  made.ranks = levels.back().ranks;
  made.levels = std::move(levels);
  return made;
}

/// 18 links of NVLink 4 and, between nodes, a card of 400 Gbit/s for each.
Machine h100(int nodes, bool multicast = true) {
  std::vector<NetworkLevel> levels{nvlink(8, 370.8e9, multicast)};
  if (nodes > 1) levels.push_back(cards(8 * nodes, 48e9));
  return nccl_machine("sm_90", levels);
}
/// 12 links of NVLink 3 and cards of 200 Gbit/s: `of_a_rank` of them.
Machine a100(int nodes, double of_a_rank) {
  std::vector<NetworkLevel> levels{nvlink(8, 240e9)};
  if (nodes > 1) levels.push_back(cards(8 * nodes, 24e9 * of_a_rank));
  return nccl_machine("sm_80", levels);
}
Machine h20() {
  Machine made = h100(1, false);
  made.nccl[static_cast<size_t>(Protocol::LL)].latency = 1.1;
  made.nccl[static_cast<size_t>(Protocol::LL128)].latency = 0.85;
  return made;
}

std::vector<int> first_ranks(int count) {
  std::vector<int> ranks;
  for (int rank = 0; rank < count; ++rank) ranks.push_back(rank);
  return ranks;
}

/// Microseconds over the first ranks. `bytes` as nccl-tests counts them: those of the larger of operand and result.
double microseconds(const Machine& machine, OpKind kind, int ranks, int64_t bytes) {
  const int64_t before = kind == OpKind::AllGather ? bytes / ranks : bytes;
  const int64_t after = kind == OpKind::ReduceScatter ? bytes / ranks : bytes;
  return 1e6 * collective_seconds(machine, kind, before, after, group_of(machine, first_ranks(ranks)));
}

/// The time of a bus bandwidth in GB/s, as nccl-tests defines it.
double of_bus(OpKind kind, int ranks, int64_t bytes, double bus) {
  const double factor = (kind == OpKind::AllReduce ? 2.0 : 1.0) * (ranks - 1) / ranks;
  return static_cast<double>(bytes) * factor / bus / 1e3;
}

struct Published {
  std::string what;
  Machine machine;
  OpKind kind;
  int ranks;
  int64_t bytes;
  double microseconds;
  const char* exception = nullptr;  // why the model does not claim it
};

std::vector<Published> published() {
  std::vector<Published> rows;
  const auto time = [&](const std::string& what, const Machine& machine, int ranks, int64_t bytes, double us,
                        const char* exception = nullptr) {
    rows.push_back({what, machine, OpKind::AllReduce, ranks, bytes, us, exception});
  };
  const auto bus = [&](const std::string& what, const Machine& machine, OpKind kind, int ranks, int64_t bytes,
                       double gb, const char* exception = nullptr) {
    rows.push_back({what, machine, kind, ranks, bytes, of_bus(kind, ranks, bytes, gb), exception});
  };
  // kvcache-ai/Mooncake PR 3484: nccl-tests on H20, which have the links of H100; NVLS did not take part. The factors
  // of LL and LL128 were chosen for these rows.
  const std::pair<int64_t, double> h20_rows[] = {
      {32 * kKi, 18.66},  {64 * kKi, 18.95},   {128 * kKi, 19.25},   {256 * kKi, 19.54},  {512 * kKi, 20.39},
      {kMi, 27.76},       {2 * kMi, 40.66},    {4 * kMi, 53.24},     {8 * kMi, 81.16},    {16 * kMi, 121.33},
      {32 * kMi, 195.40}, {128 * kMi, 700.25}, {256 * kMi, 1366.17}, {512 * kMi, 2671.6}, {kGi, 5252.64}};
  for (const auto& [bytes, us] : h20_rows) time("8 H20, Mooncake 3484", h20(), 8, bytes, us);
  bus("8 H100 NVLS, nccl-tests 212", h100(1), OpKind::AllReduce, 8, 8 * kGi, 480);
  bus("8 H100 NVLS, nccl-tests 290", h100(1), OpKind::AllReduce, 8, 8 * kGi, 476);
  bus("8 H200 NVLS, nccl-tests 272", h100(1), OpKind::AllReduce, 8, 8 * kGi, 475);
  for (const OpKind kind : {OpKind::AllReduce, OpKind::AllGather, OpKind::ReduceScatter})
    bus("8 H100 ring, nccl-tests 212", h100(1, false), kind, 8, 8 * kGi, 370);
  bus("256 H100, nccl 1218", h100(32), OpKind::AllReduce, 256, 2 * kGi, 340);
  bus("256 H100, nccl 1218", h100(32), OpKind::AllGather, 256, 2 * kGi, 200,
      "the run was held to 16 channels and one queue pair, which the model does not know");
  bus("a pair of A100 NV12, nccl-tests 178", a100(1, 0), OpKind::AllReduce, 2, 12 * kGi, 208);
  bus("24 A100 HDR x4 at best, nccl-tests 119", a100(3, 0.5), OpKind::AllReduce, 24, 128 * kMi, 96);
  // The rows below are of other libraries, over the same cards: at such sizes these alone count.
  bus("16 A100 all-to-all, MSCCL++", a100(2, 1), OpKind::AllToAll, 16, kGi, 43.6);
  bus("16 H100 all-to-all, MSCCL++", h100(2), OpKind::AllToAll, 16, kGi, 90.9);
  const char* in_turn = "one thread launched all GPUs one after another: each adds 4 us";
  const double a100_rows[] = {10, 13.8, 16.9, 20.8, 25.2, 29.5, 33.7};
  for (int ranks = 2; ranks <= 8; ++ranks)
    time(format("{} A100, nccl-tests 123", ranks), a100(1, 0), ranks, 128, a100_rows[ranks - 2], in_turn);
  time("2 H100 NVLS in a CUDA graph, nccl 1259", h100(1), 2, 64 * kKi, 6, "the runs of a CUDA graph overlap");
  time("8 H200 symmetric memory, nccl 1940", h100(1), 8, 8, 2.3, "another algorithm, on registered memory");
  return rows;
}

std::string tenths(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", number);
  return text;
}

std::string text_of(const Published& row) {
  const double model = microseconds(row.machine, row.kind, row.ranks, row.bytes);
  return format("{} of {} B on {}: model {} us, published {} us ({} %)",
                row.kind == OpKind::AllReduce   ? "all-reduce"
                : row.kind == OpKind::AllGather ? "all-gather"
                : row.kind == OpKind::AllToAll  ? "all-to-all"
                                                : "reduce-scatter",
                row.bytes, row.what, tenths(model), tenths(row.microseconds),
                tenths(100 * (model / row.microseconds - 1)));
}

}  // namespace

TEST_CASE("NCCL's model: a ring of 8 Hopper GPUs, worked out by hand") {
  const std::pair<int64_t, double> worked[] = {
      {kKi, 15.0},     {64 * kKi, 15.8},  {256 * kKi, 18.3}, {kMi, 28.0},       {2 * kMi, 41.0},   {4 * kMi, 62.1},
      {8 * kMi, 83.6}, {16 * kMi, 126.7}, {32 * kMi, 212.7}, {64 * kMi, 372.7}, {256 * kMi, 1323}, {kGi, 5124}};
  for (const auto& [bytes, us] : worked)
    CHECK(microseconds(h100(1, false), OpKind::AllReduce, 8, bytes) == doctest::Approx(us).epsilon(0.01));
}

TEST_CASE("NCCL's model beside published measurements: within 15 %") {
  constexpr double kMost = 0.15;
  std::string table, exceptions;
  for (const Published& row : published()) {
    const double ratio = microseconds(row.machine, row.kind, row.ranks, row.bytes) / row.microseconds;
    INFO(text_of(row));
    (row.exception ? exceptions : table) +=
        "  " + text_of(row) + (row.exception ? format(": {}\n", row.exception) : "\n");
    if (row.exception)
      CHECK(std::abs(ratio - 1) > kMost);  // an exception must not fit the model
    else
      CHECK(std::abs(ratio - 1) <= kMost);
  }
  MESSAGE("published measurements\n" << table << "exceptions\n" << exceptions);
}

TEST_CASE("a mean over sizes: 24 A100 with four cards a node") {
  double sum = 0;
  for (int size = 1; size <= 128; ++size) {
    const int64_t bytes = size * kMi;
    sum += static_cast<double>(bytes) * 2 * 23 / 24 / microseconds(a100(3, 0.5), OpKind::AllReduce, 24, bytes) / 1e3;
  }
  CHECK(sum / 128 == doctest::Approx(84.8).epsilon(0.15));  // nccl-tests 119
}

TEST_CASE("ranks of a group by level: the inner axis of a mesh stays in a node, the outer one has a rank in each") {
  const Machine machine = h100(4);
  const Mesh mesh{{"dp", 4}, {"tp", 8}};
  CHECK(group_of(machine, mesh, {1}).within == std::vector<int>{8, 8});
  CHECK(group_of(machine, mesh, {0}).within == std::vector<int>{1, 4});
  CHECK(group_of(machine, mesh, {0, 1}).within == std::vector<int>{8, 32});
  CHECK(group_of(machine, Mesh{{"a", 16}, {"b", 2}}, {0}).within == std::vector<int>{4, 16});
  const Place place{"p", {8, 9, 16, 17}, {{"a", 2}, {"b", 2}}};
  CHECK(group_of(machine, place, {1}).within == std::vector<int>{2, 2});
  CHECK(group_of(machine, place, {0}).within == std::vector<int>{1, 2});
}

TEST_CASE("one rank a node: all groups share the cards of a node") {
  const Machine machine = h100(4);
  const Mesh mesh{{"dp", 4}, {"tp", 8}};
  const auto seconds = [&](const std::vector<int>& axes) {
    return collective_seconds(machine, OpKind::AllReduce, kGi, kGi, group_of(machine, mesh, axes));
  };
  CHECK(seconds({0}) == doctest::Approx(2 * 0.75 * kGi / 48e9).epsilon(0.02));
  CHECK(seconds({0}) > 4 * seconds({1}));
  CHECK(seconds({0, 1}) < seconds({0}));  // with eight cards
}

TEST_CASE("a message: NVLink inside a node, one card between nodes") {
  const Machine machine = h100(2);
  const auto seconds = [&](int to) {
    return collective_seconds(machine, OpKind::Transfer, kGi, kGi, group_of(machine, {0, to}));
  };
  CHECK(seconds(1) == doctest::Approx(kGi / 370.8e9).epsilon(0.02));
  CHECK(seconds(8) == doctest::Approx(kGi / 48e9).epsilon(0.02));
}

TEST_CASE("without NVLink there is no LL128, and a hop takes longer") {
  Machine box = nccl_machine("sm_89", {{"pcie", 4, Link::Pcie, 24e9, 0, false, {}}});
  CHECK(microseconds(box, OpKind::AllReduce, 4, 8) == doctest::Approx(6.6 + 6 * 1.0).epsilon(0.001));
  CHECK(microseconds(box, OpKind::AllReduce, 4, kGi) ==
        doctest::Approx(8.4 + 6 * 5.7 + 1.5 * kGi / 24e3).epsilon(0.001));
}

TEST_CASE("measured curves: between points and numbers of ranks on a line, beyond them as at the end") {
  Machine machine;
  machine.ranks = 8;
  machine.levels = {{"memory", 8, Link::Network, 1e9, 1e-6, false, {}}};
  const auto seconds = [&](OpKind kind, int ranks, int64_t before, int64_t after) {
    return collective_seconds(machine, kind, before, after, group_of(machine, first_ranks(ranks)));
  };
  CHECK(seconds(OpKind::AllReduce, 2, 1000, 1000) == doctest::Approx(2e-6));  // sends 1000 bytes
  CHECK(seconds(OpKind::AllGather, 1, 1000, 1000) == 0);
  CHECK(seconds(OpKind::ShardSlice, 2, 1000, 500) == 0);
  machine.levels[0].curves = {{OpKind::AllReduce, 2, {{0, 2e-6}, {1000, 4e-6}, {2000, 5e-6}}},
                              {OpKind::AllReduce, 4, {{1000, 8e-6}}}};
  CHECK(seconds(OpKind::AllReduce, 2, 500, 500) == doctest::Approx(3e-6));
  CHECK(seconds(OpKind::AllReduce, 2, 3000, 3000) == doctest::Approx(6e-6));
  CHECK(seconds(OpKind::AllReduce, 3, 750, 750) == doctest::Approx(6e-6));
  CHECK(seconds(OpKind::AllReduce, 8, 10, 10) == doctest::Approx(8e-6));
  CHECK(seconds(OpKind::AllGather, 2, 1000, 2000) == doctest::Approx(4e-6));  // as an all-reduce of as many bytes
  machine.levels[0].curves.push_back({OpKind::AllGather, 2, {{0, 1e-6}}});
  CHECK(seconds(OpKind::AllGather, 2, 1000, 2000) == doctest::Approx(1e-6));
}

TEST_CASE("the level that joins all ranks of a group says the time; without levels the ceilings do") {
  Machine machine;
  machine.levels = {{"memory", 2, Link::Network, 1e9, 1e-6, false, {}},
                    {"tcp", 4, Link::Network, 1e6, 1e-3, false, {}}};
  const auto seconds = [&](const std::vector<int>& ranks) {
    return collective_seconds(machine, OpKind::AllReduce, 1000, 1000, group_of(machine, ranks));
  };
  CHECK(seconds({0, 1}) == doctest::Approx(2e-6));
  CHECK(seconds({1, 2}) == doctest::Approx(2e-3));
  machine.levels.clear();
  machine.ceilings.latency = 1, machine.ceilings.link = 500;
  CHECK(seconds({0, 1}) == doctest::Approx(3));
}
