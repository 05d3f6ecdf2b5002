// Collectives of cuda programs over ranks that are threads: the same cases as on the host. Over NCCL too where
// WEFT_EMULATION_NCCL says so.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "cuda_ranks.h"

using namespace weft;
using namespace weft_test;

namespace {

constexpr int kAnyOrder[] = {2, 0, 3, 1};
constexpr Axis outer{.name = "outer", .size = 2, .stride = 2, .id = 0, .ranks = kAnyOrder};
constexpr Axis inner{.name = "inner", .size = 2, .stride = 1, .id = 1, .ranks = kAnyOrder};

Axis all_ranks(int n) { return {.name = "all", .size = n, .stride = 1, .id = 0}; }

/// Small whole numbers, which every type holds and every order of summing gives exactly.
template <class T>
T value_of(int rank, int64_t i) {
  if constexpr (std::is_same_v<T, bool>) return (rank + i) % 2 == 0;
  return T(float(1 + (rank * 3 + i * 5) % 4));
}

template <class T>
T expected(ReduceOp op, int ranks, int64_t i) {
  double out = double(value_of<T>(0, i));
  for (int p = 1; p < ranks; ++p) {
    const double x = double(value_of<T>(p, i));
    if (op == ReduceOp::Sum) out += x;
    if (op == ReduceOp::Prod) out *= x;
    if (op == ReduceOp::Max) out = std::max(out, x);
    if (op == ReduceOp::Min) out = std::min(out, x);
  }
  if constexpr (std::is_same_v<T, bool>) return out != 0;
  return T(float(out));
}

template <class T>
int64_t wrong_reductions(int ranks, ReduceOp op, int64_t count) {
  Wrong wrong{0};
  const Window<T> src{0, count}, copy{src.end(), count};
  const Own<T> own{0, count};
  const int code = run_step({.count = ranks}, [&](Rank& r) {
    const Group g = all_ranks(ranks);
    const auto check = [&](const T* at) {
      const std::vector<T> got = get(r, at, count);
      for (int64_t i = 0; i < count; ++i) wrong += got[size_t(i)] != expected<T>(op, ranks, i);
    };
    put(r[src], filled<T>(count, [&](int64_t i) { return value_of<T>(r.rank, i); }));
    r.all_reduce(g, op, src, r[own], count);
    r.all_reduce(g, op, src, copy, count);
    check(r[own]);
    check(r[copy]);
    r.all_reduce(g, op, src, src, count);  // in place
    check(r[src]);
  });
  return wrong + code;
}

template <class T>
void check_type(int ranks) {
  CAPTURE(dtype_name(dtype_of<T>()));
  CAPTURE(ranks);
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod})
    CHECK(wrong_reductions<T>(ranks, op, 600) == 0);
}

}  // namespace

TEST_CASE("cuda collectives: all-reduce for every type and operation") {
  for (const int ranks : {1, 2, 4}) {
    check_type<float>(ranks);
    check_type<double>(ranks);
    check_type<half>(ranks);
    check_type<bfloat16>(ranks);
    check_type<int8_t>(ranks);
    check_type<int32_t>(ranks);
    check_type<int64_t>(ranks);
    check_type<uint8_t>(ranks);
    check_type<uint32_t>(ranks);
    check_type<uint64_t>(ranks);
    check_type<bool>(ranks);
    check_type<int16_t>(ranks);
    check_type<uint16_t>(ranks);
  }
}

TEST_CASE("cuda collectives: 16-bit integers, which NCCL does not reduce, scattered and to one rank") {
  constexpr int64_t kPart = 5;
  constexpr int kCount = 3, kRoot = 1;
  const Window<int16_t> whole{0, kPart * kCount};
  const Own<int16_t> part{0, kPart}, all{part.end(), kPart * kCount};
  Wrong wrong{0};
  const auto sum = [](int64_t i) { return int16_t(30000 + i + (30000 + 2 * i) + (30000 + 3 * i)); };  // wraps around
  const int code = run_step({.count = kCount}, [&](Rank& r) {
    const Group g = all_ranks(kCount);
    put(r[whole], filled<int16_t>(whole.count, [&](int64_t i) { return int16_t(30000 + i * (r.rank + 1)); }));
    r.reduce_scatter(g, ReduceOp::Sum, whole, r[part], {.dims = {{kPart, 1, 1}}, .src_by_me = {kPart}});
    r.reduce(g, kRoot, ReduceOp::Sum, whole, r[all], whole.count);
    const std::vector<int16_t> mine = get(r, r[part], kPart), sums = get(r, r[all], whole.count);
    for (int64_t i = 0; i < kPart; ++i) wrong += mine[size_t(i)] != sum(r.rank * kPart + i);
    for (int64_t i = 0; i < whole.count && r.rank == kRoot; ++i) wrong += sums[size_t(i)] != sum(i);
  });
  CHECK(code == 0);
  CHECK(wrong == 0);
}

TEST_CASE("cuda collectives: reduce-scatter and all-gather of a ragged dimension") {
  constexpr int64_t kRows = 3, kColumns = 10, kBlock = 3;
  constexpr int kCount = 4;
  Wrong wrong{0};
  const Window<float> whole{0, kRows * kColumns}, part{whole.end(), kRows * kBlock};
  const Own<float> gathered{0, kRows * kColumns};
  const int code = run_step({.count = kCount}, [&](Rank& r) {
    const Group g = all_ranks(kCount);
    put(r[whole], filled<float>(whole.count, [&](int64_t i) { return float(i) * float(r.rank + 1); }));
    put(r[part], std::vector<float>(size_t(part.count), -1.0f));
    r.reduce_scatter(g, ReduceOp::Sum, whole, r[part],
                     {.dims = {{kRows, kColumns, kBlock}, {kBlock, 1, 1}},
                      .src_by_me = {kBlock},
                      .by_me = {.dim = 1, .extent = kColumns, .block = kBlock}});
    const std::vector<float> mine = get(r, r[part], part.count);
    const int64_t valid = std::clamp<int64_t>(kColumns - r.rank * kBlock, 0, kBlock);
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t c = 0; c < kBlock; ++c) {
        const float want = c < valid ? float(row * kColumns + r.rank * kBlock + c) * 10 : -1;  // padding is not touched
        wrong += mine[size_t(row * kBlock + c)] != want;
      }
    r.all_gather(g, part, r[gathered],
                 {.dims = {{kRows, kBlock, kColumns}, {kBlock, 1, 1}},
                  .dst_by_peer = {kBlock},
                  .by_peer = {.dim = 1, .extent = kColumns, .block = kBlock}});
    const std::vector<float> all = get(r, r[gathered], gathered.count);
    for (int64_t i = 0; i < gathered.count; ++i) wrong += all[size_t(i)] != float(i) * 10;
  });
  CHECK(code == 0);
  CHECK(wrong == 0);
}

TEST_CASE("cuda collectives: all-to-all over two axes of a place in any order") {
  constexpr int64_t kSide = 8, kPart = kSide / 4;
  Wrong wrong{0};
  const Window<int32_t> rows{0, kPart * kSide};
  const Own<int32_t> columns{0, kSide * kPart};
  const int code = run_step({.count = 4}, [&](Rank& r) {
    const Group g{outer, inner};
    const int me = r.index(g);
    put(r[rows], filled<int32_t>(rows.count, [&](int64_t i) { return int32_t(me * rows.count + i); }));
    r.all_to_all(g, rows, r[columns],
                 {.dims = {{kPart, kSide, kPart}, {kPart, 1, 1}},
                  .src_by_me = {2 * kPart, kPart},
                  .dst_by_peer = {2 * kPart * kPart, kPart * kPart}});
    const std::vector<int32_t> got = get(r, r[columns], columns.count);
    for (int64_t row = 0; row < kSide; ++row)
      for (int64_t c = 0; c < kPart; ++c) wrong += got[size_t(row * kPart + c)] != row * kSide + me * kPart + c;
  });
  CHECK(code == 0);
  CHECK(wrong == 0);
}

TEST_CASE("cuda collectives: groups of a permuted place are where the place's list says") {
  Wrong wrong{0};
  const Window<float> x{0, 1};
  const int code = run_step({.count = 4}, [&](Rank& r) {
    put(r[x], {float(1 << r.rank)});
    r.all_reduce(inner, ReduceOp::Sum, x, x, 1);  // pairs {2, 0} and {3, 1}
    wrong += r.value(r[x]) != (r.rank % 2 == 0 ? 5 : 10);
    r.all_reduce(outer, ReduceOp::Sum, x, x, 1);
    wrong += r.value(r[x]) != 15;
  });
  CHECK(code == 0);
  CHECK(wrong == 0);
}

TEST_CASE("cuda collectives: broadcast and reduce to a root") {
  Wrong wrong{0};
  const Window<int64_t> x{0, 2};
  const Own<int64_t> y{0, 3};
  const int code = run_step({.count = 3}, [&](Rank& r) {
    const Group g = all_ranks(3);
    put(r[x], std::vector<int64_t>{r.rank, 10 + r.rank});
    r.reduce(g, 1, ReduceOp::Sum, x, r[y], 2);
    std::vector<int64_t> got = get(r, r[y], 3);
    if (r.rank == 1) wrong += got[0] != 3 || got[1] != 33;
    r.broadcast(g, 2, x, r[x], 2);
    got = get(r, r[x], 2);
    wrong += got[0] != 2 || got[1] != 12;
  });
  CHECK(code == 0);
  CHECK(wrong == 0);
}

TEST_CASE("cuda collectives: a strided all-reduce leaves the rest alone") {
  Wrong wrong{0};
  constexpr int64_t kRows = 20, kWidth = 100, kUsed = 60;
  const Window<float> x{0, kRows * kWidth};
  const int code = run_step({.count = 3}, [&](Rank& r) {
    put(r[x], std::vector<float>(size_t(x.count), 1.0f));
    r.all_reduce(all_ranks(3), ReduceOp::Sum, x, x, {.dims = {{kRows, kWidth, kWidth}, {kUsed, 1, 1}}});
    const std::vector<float> got = get(r, r[x], x.count);
    for (int64_t i = 0; i < x.count; ++i) wrong += got[size_t(i)] != (i % kWidth < kUsed ? 3 : 1);
  });
  CHECK(code == 0);
  CHECK(wrong == 0);
}

TEST_CASE("cuda collectives: transfers in one direction and back, issued in one order") {
  // 0 sends two micro-batches before it receives the first answer: no side may wait on the host.
  static constexpr Message kForth[] = {{0, 1, 0, 1, {{2, 1, 1}}}}, kBack[] = {{1, 0, 0, 0, {{2, 1, 1}}}};
  const Transfer forth{0, 2, kForth}, back{forth.end(), 2, kBack};
  Wrong wrong{0};
  const Window<float> out{0, 4};
  const Own<float> in{0, 6};
  const int code = run_ranks({.count = 2, .streams = 3, .iterations = 3}, [&](Rank& r) {
    const auto send = [&](const Transfer& t, int mb) {
      r.step({1, "send", "Test"}, mb, [&] { r.send(t, mb, out.part(mb * 2, 2)); });
    };
    const auto receive = [&](const Transfer& t, int mb) {
      r.step({2, "recv", "Test"}, mb, [&] { r.recv(t, mb, out.part(mb * 2, 2), r[in] + mb * 3); });
    };
    put(r[out], std::vector<float>{1.0f + r.rank, 2.0f + r.rank, 3.0f + r.rank, 4.0f + r.rank});
    if (r.rank == 0) send(forth, 0), send(forth, 1), receive(back, 0), receive(back, 1);
    if (r.rank == 1) receive(forth, 0), send(back, 0), receive(forth, 1), send(back, 1);
    const int at = r.rank == 0 ? 0 : 1, from = 1 - r.rank;
    for (int i = 0; i < 4; ++i) wrong += r.value(r[in] + i / 2 * 3 + i % 2 + at) != float(1 + i + from);
  });
  CHECK(code == 0);
  CHECK(wrong == 0);
}
