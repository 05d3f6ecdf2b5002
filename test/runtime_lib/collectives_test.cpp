// Collectives over ranks that are threads, through shared memory and through messages: every type and operation, ragged
// slices, groups of several axes, any order of ranks.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "../effort.h"
#include "ranks.h"

using namespace weft;
using weft_test::Ranks;
using weft_test::run_both_ways;

namespace {

// CHECK is not for many threads at once: ranks count what is wrong.
using Wrong = std::atomic<int64_t>;

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
  if constexpr (std::is_same_v<T, bool>) {
    bool any = false, all = true;
    for (int p = 0; p < ranks; ++p) any |= value_of<T>(p, i), all &= value_of<T>(p, i);
    return op == ReduceOp::Sum || op == ReduceOp::Max ? any : all;
  } else {
    double out = double(value_of<T>(0, i));
    for (int p = 1; p < ranks; ++p) {
      const double x = double(value_of<T>(p, i));
      if (op == ReduceOp::Sum) out += x;
      if (op == ReduceOp::Prod) out *= x;
      if (op == ReduceOp::Max) out = std::max(out, x);
      if (op == ReduceOp::Min) out = std::min(out, x);
    }
    return T(float(out));
  }
}

template <class T>
int64_t wrong_reductions(int ranks, ReduceOp op, int64_t count) {
  Wrong wrong{0};
  const Window<T> src{0, count}, copy{src.end(), count};
  const Own<T> own{0, count};
  const auto check = [&](const T* got) {
    for (int64_t i = 0; i < count; ++i) wrong += got[i] != expected<T>(op, ranks, i);
  };
  const int code = run_both_ways({.count = ranks}, [&](Rank& r) {
    const Group g = all_ranks(ranks);
    for (int64_t i = 0; i < count; ++i) r[src][i] = value_of<T>(r.rank, i);
    r.all_reduce(g, op, src, r[own], count);
    check(r[own]);
    r.all_reduce(g, op, src, copy, count);
    check(r[copy]);
    r.barrier(g);
    for (int64_t i = 0; i < count; ++i) r[src][i] = value_of<T>(r.rank, i);
    r.all_reduce(g, op, src, src, count);  // in place
    check(r[src]);
  });
  return wrong + code;
}

template <class T>
void check_type() {
  CAPTURE(dtype_name(dtype_of<T>()));
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod}) {
    CHECK(wrong_reductions<T>(3, op, 1000) == 0);
    // In parts, whose borders depend on the type and not on the operation.
    if (op == ReduceOp::Sum || is_full()) CHECK(wrong_reductions<T>(2, op, 140000) == 0);
  }
}

}  // namespace

TEST_CASE("collectives: all-reduce for every type and operation") {
  check_type<float>();
  check_type<double>();
  check_type<half>();
  check_type<bfloat16>();
  check_type<int8_t>();
  check_type<int16_t>();
  check_type<int32_t>();
  check_type<int64_t>();
  check_type<uint8_t>();
  check_type<uint16_t>();
  check_type<uint32_t>();
  check_type<uint64_t>();
  check_type<bool>();
}

TEST_CASE("collectives: one rank, and more ranks than cores") {
  CHECK(wrong_reductions<float>(1, ReduceOp::Sum, 100) == 0);
  CHECK(wrong_reductions<float>(5, ReduceOp::Sum, 50001) == 0);
}

TEST_CASE("collectives: halves are summed in float and rounded once") {
  Wrong wrong{0};
  const Window<half> x{0, 1};
  run_both_ways({.count = 3}, [&](Rank& r) {
    r[x][0] = r.rank == 0 ? half(2048.0f) : half(1.0f);  // 2048 + 1 is 2048 in half
    r.all_reduce(all_ranks(3), ReduceOp::Sum, x, x, 1);
    wrong += float(r[x][0]) != 2050;
  });
  CHECK(wrong == 0);
}

TEST_CASE("collectives: NaN wins a maximum") {
  Wrong wrong{0};
  const Window<float> x{0, 1};
  run_both_ways({.count = 3}, [&](Rank& r) {
    r[x][0] = r.rank == 1 ? NAN : float(r.rank);
    r.all_reduce(all_ranks(3), ReduceOp::Max, x, x, 1);
    wrong += !std::isnan(r[x][0]);
  });
  CHECK(wrong == 0);
}

TEST_CASE("collectives: reduce-scatter and all-gather of a ragged dimension") {
  // A tensor of 3 x 10 whose columns are cut in blocks of ceil(10 / 4) = 3: the last rank holds one column.
  constexpr int64_t kRows = 3, kColumns = 10, kBlock = 3;
  constexpr int kCount = 4;
  Wrong wrong{0};
  const Window<float> whole{0, kRows * kColumns}, part{whole.end(), kRows * kBlock};
  const Own<float> gathered{0, kRows * kColumns};
  run_both_ways({.count = kCount}, [&](Rank& r) {
    const Group g = all_ranks(kCount);
    for (int64_t i = 0; i < whole.count; ++i) r[whole][i] = float(i) * float(r.rank + 1);
    std::fill_n(r[part], part.count, -1.0f);
    r.reduce_scatter(g, ReduceOp::Sum, whole, r[part],
                     {.dims = {{kRows, kColumns, kBlock}, {kBlock, 1, 1}},
                      .src_by_me = {kBlock},
                      .by_me = {.dim = 1, .extent = kColumns, .block = kBlock}});
    const int64_t valid = std::clamp<int64_t>(kColumns - r.rank * kBlock, 0, kBlock);
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t c = 0; c < kBlock; ++c) {
        const float want = c < valid ? float(row * kColumns + r.rank * kBlock + c) * 10 : -1;  // padding is not touched
        wrong += r[part][row * kBlock + c] != want;
      }
    r.all_gather(g, part, r[gathered],
                 {.dims = {{kRows, kBlock, kColumns}, {kBlock, 1, 1}},
                  .dst_by_peer = {kBlock},
                  .by_peer = {.dim = 1, .extent = kColumns, .block = kBlock}});
    for (int64_t i = 0; i < gathered.count; ++i) wrong += r[gathered][i] != float(i) * 10;
  });
  CHECK(wrong == 0);
}

TEST_CASE("collectives: all-to-all over two axes of a place in any order") {
  // Rows cut by (outer, inner) become columns cut by (outer, inner).
  constexpr int64_t kSide = 8, kPart = kSide / 4;
  Wrong wrong{0};
  const Window<int32_t> rows{0, kPart * kSide};
  const Own<int32_t> columns{0, kSide * kPart};
  run_both_ways({.count = 4}, [&](Rank& r) {
    const Group g{outer, inner};
    const int me = r.index(g);
    for (int64_t i = 0; i < rows.count; ++i) r[rows][i] = int32_t(me * rows.count + i);
    r.all_to_all(g, rows, r[columns],
                 {.dims = {{kPart, kSide, kPart}, {kPart, 1, 1}},
                  .src_by_me = {2 * kPart, kPart},
                  .dst_by_peer = {2 * kPart * kPart, kPart * kPart}});
    for (int64_t row = 0; row < kSide; ++row)
      for (int64_t c = 0; c < kPart; ++c) wrong += r[columns][row * kPart + c] != row * kSide + me * kPart + c;
  });
  CHECK(wrong == 0);
}

TEST_CASE("collectives: groups of a permuted place are where the place's list says") {
  Wrong wrong{0};
  const Window<float> x{0, 1};
  run_both_ways({.count = 4}, [&](Rank& r) {
    r[x][0] = float(1 << r.rank);
    r.all_reduce(inner, ReduceOp::Sum, x, x, 1);  // pairs {2, 0} and {3, 1}
    wrong += r[x][0] != (r.rank % 2 == 0 ? 5 : 10);
    r.all_reduce(outer, ReduceOp::Sum, x, x, 1);
    wrong += r[x][0] != 15;
  });
  CHECK(wrong == 0);
}

TEST_CASE("collectives: broadcast and reduce to a root") {
  Wrong wrong{0};
  const Window<int64_t> x{0, 2};
  const Own<int64_t> y{0, 3};
  run_both_ways({.count = 3}, [&](Rank& r) {
    const Group g = all_ranks(3);
    r[x][0] = r.rank, r[x][1] = 10 + r.rank;
    r.reduce(g, 1, ReduceOp::Sum, x, r[y], 2);
    if (r.rank == 1) wrong += r[y][0] != 3 || r[y][1] != 33;
    r.broadcast(g, 2, x, r[x], 2);
    wrong += r[x][0] != 2 || r[x][1] != 12;
  });
  CHECK(wrong == 0);
}

TEST_CASE("collectives: a strided all-reduce leaves the rest alone") {
  Wrong wrong{0};
  constexpr int64_t kRows = 800, kWidth = 100, kUsed = 60;  // large enough to go in parts
  const Window<float> x{0, kRows * kWidth};
  run_both_ways({.count = 3}, [&](Rank& r) {
    std::fill_n(r[x], x.count, 1.0f);
    r.all_reduce(all_ranks(3), ReduceOp::Sum, x, x, {.dims = {{kRows, kWidth, kWidth}, {kUsed, 1, 1}}});
    for (int64_t i = 0; i < x.count; ++i) wrong += r[x][i] != (i % kWidth < kUsed ? 3 : 1);
  });
  CHECK(wrong == 0);
}

TEST_CASE("collectives: each is communication in a trace, on the stream of the computation too") {
  const Group all = all_ranks(2);
  const Window<float> src{0, 8}, copy{src.end(), 8};
  const Own<float> own{0, 16};
  const Exchange halves{.dims = {{4, 1, 1}}, .src_by_me = {4}}, gathered{.dims = {{4, 1, 1}}, .dst_by_peer = {4}};
  const std::function<void(Rank&)> collectives[] = {
      [&](Rank& r) { r.all_reduce(all, ReduceOp::Sum, src, r[own], 8); },
      [&](Rank& r) { r.all_reduce(all, ReduceOp::Sum, src, copy, 8); },
      [&](Rank& r) { r.reduce_scatter(all, ReduceOp::Sum, src, r[own], halves); },
      [&](Rank& r) { r.all_gather(all, src, r[own], gathered); },
      [&](Rank& r) { r.broadcast(all, 0, src, r[own], 8); },
      [&](Rank& r) { r.reduce(all, 0, ReduceOp::Sum, src, r[own], 8); },
  };
  Wrong wrong{0}, events{0};
  const auto look = [&](const RankState& state) {
    for (const Event& event : state.trace(0)) ++events, wrong += event.communicates != (event.index >= 0);
  };
  const int code = run_both_ways({.traced = look}, [&](Rank& r) {
    r.step({0, "compute", ""}, -1, [&] { r[own][0] = 1; });
    for (size_t i = 0; i < std::size(collectives); ++i)
      r.step({0, "exchange", ""}, int64_t(i), [&] { collectives[i](r); });
  });
  CHECK(code == 0);
  CHECK(wrong == 0);
  CHECK(events == int64_t(2 * 2 * (1 + std::size(collectives))));
}
