// Steps of cuda programs: kernels, contractions, signals, graphs, waits inside kernels, and how they fail.
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>

#include "cuda_ranks.h"

using namespace weft;
using namespace weft_test;

namespace cuda_kernels {
void scale(const float* x, float* y, int64_t count, float factor);
void rows(const float* x, float* mean, float* largest, int64_t* where, int64_t cols);
void count_up(const uint32_t* invocation, int64_t* sum);
void look_up(IndexCheck look_indices, int64_t count, int64_t first, int64_t extent);
void all_reduce(Peers peers, Signal ready, Window<float> x, Window<float> y);
void sum_steps(Peers peers, Signal given, Signal taken, int steps, int64_t count, const float* from, float* doubled,
               float* sum);
}  // namespace cuda_kernels

namespace {
Axis all_ranks(int n) { return {.name = "all", .size = n, .stride = 1, .id = 0}; }
}  // namespace

TEST_CASE("cuda steps: a pointwise kernel, arguments converted to its parameters") {
  Wrong wrong{0};
  const Own<float> x{0, 1000}, y{x.end(), 1000};
  const int code = run_step({.count = 1}, [&](Rank& r) {
    put(r[x], filled<float>(1000, [](int64_t i) { return float(i); }));
    r.launch(cuda_kernels::scale, {.blocks = 3, .threads = 128}, r[x], r[y], 1000, 2);
    const std::vector<float> got = get(r, r[y], 1000);
    for (int64_t i = 0; i < 1000; ++i) wrong += got[size_t(i)] != 2 * float(i);
  });
  CHECK(code == 0);
  CHECK(wrong == 0);
}

TEST_CASE("cuda steps: reductions of a block, for any number of warps") {
  Wrong wrong{0};
  constexpr int64_t kRows = 3, kCols = 77;
  const Own<float> x{0, kRows * kCols}, mean{x.end(), kRows}, largest{mean.end(), kRows};
  const Own<int64_t> where{largest.end(), kRows};
  const auto value = [](int64_t i) { return float(i * 7 % 50); };
  const int code = run_step({.count = 1}, [&](Rank& r) {
    put(r[x], filled<float>(x.count, value));
    for (const unsigned threads : {32u, 64u, 256u, 1024u}) {
      r.launch(cuda_kernels::rows, {.blocks = kRows, .threads = threads}, r[x], r[mean], r[largest], r[where], kCols);
      for (int64_t row = 0; row < kRows; ++row) {
        float sum = 0, best = -1;
        int64_t at = 0;
        for (int64_t c = 0; c < kCols; ++c) {
          const float v = value(row * kCols + c);
          sum += v;
          if (v > best) best = v, at = c;
        }
        wrong += std::abs(r.value(r[mean] + row) - sum / kCols) > 1e-4f;
        wrong += r.value(r[largest] + row) != best || r.value(r[where] + row) != at;
      }
    }
  });
  CHECK(code == 0);
  CHECK(wrong == 0);
}

namespace {

float reference_epilogue(Epilogue epilogue, float sum, float bias) {
  if (epilogue == Epilogue::Bias || epilogue == Epilogue::BiasRelu || epilogue == Epilogue::BiasGelu) sum += bias;
  if (epilogue == Epilogue::Relu || epilogue == Epilogue::BiasRelu) return sum > 0 ? sum : 0;
  if (epilogue == Epilogue::Gelu || epilogue == Epilogue::BiasGelu)
    return 0.5f * sum * (1 + std::tanh(0.7978845608f * (sum + 0.044715f * sum * sum * sum)));
  return sum;
}

/// The largest difference from plain loops.
template <class T>
double contraction_error(const Contraction& c) {
  const int64_t room = 4096;
  const Own<T> a{0, room}, b{a.end(), room}, bias{b.end(), 64}, y{bias.end(), room};
  const auto at = [](int64_t i) { return T(float(i * 37 % 23 - 11) / 8); };
  double worst = 0;
  const int code = run_step({.count = 1}, [&](Rank& r) {
    put(r[a], filled<T>(room, at));
    put(r[b], filled<T>(room, [&](int64_t i) { return at(i + 5); }));
    put(r[bias], filled<T>(64, at));
    for (int repeat = 0; repeat < 2; ++repeat) r.contract(c, r[a], r[b], r[bias], r[y]);
    const std::vector<T> got = get(r, r[y], room);
    for (int64_t i = 0; i < c.outer * c.batch * c.m * c.n; ++i) {
      const int64_t n = i % c.n, m = i / c.n % c.m, batch = i / (c.n * c.m) % c.batch, o = i / (c.n * c.m * c.batch);
      const auto place = [&](const Matrix& x, int64_t row, int64_t column) {
        return row * x.row + column * x.column + batch * x.batch + o * x.outer;
      };
      float sum = 0;
      for (int64_t k = 0; k < c.k; ++k) sum += float(at(place(c.a, m, k))) * float(at(place(c.b, k, n) + 5));
      const float want = reference_epilogue(c.epilogue, sum, float(at(n)));
      const double difference = std::abs(double(float(got[size_t(place(c.y, m, n))])) - double(want));
      worst = std::isnan(difference) ? 1e9 : std::max(worst, difference / std::max(1.0, std::abs(double(want))));
    }
  });
  return code == 0 ? worst : 1e9;
}

}  // namespace

TEST_CASE("cuda steps: contractions of every storage, epilogue and type") {
  for (const Epilogue e :
       {Epilogue::None, Epilogue::Bias, Epilogue::Relu, Epilogue::BiasRelu, Epilogue::Gelu, Epilogue::BiasGelu}) {
    CAPTURE(int(e));
    const Contraction plain{.m = 6, .n = 10, .k = 7, .a = {7, 1}, .b = {10, 1}, .y = {10, 1}, .epilogue = e};
    CHECK(contraction_error<float>(plain) < 1e-5);
    CHECK(contraction_error<double>(plain) < 1e-5);
    CHECK(contraction_error<half>(plain) < 2e-3);
    CHECK(contraction_error<bfloat16>(plain) < 2e-2);
  }
  const Contraction transposed{.m = 6, .n = 10, .k = 7, .a = {1, 6}, .b = {1, 7}, .y = {16, 1}};
  CHECK(contraction_error<float>(transposed) < 1e-5);
  const Contraction by_columns{.m = 6, .n = 10, .k = 7, .a = {7, 1}, .b = {10, 1}, .y = {1, 6}};
  CHECK(contraction_error<float>(by_columns) < 1e-5);
  const Contraction batches{.m = 3,
                            .n = 4,
                            .k = 5,
                            .a = {5, 1, 15, 100},
                            .b = {4, 1, 20, 0},
                            .y = {4, 1, 12, 40},
                            .batch = 3,
                            .outer = 4,
                            .epilogue = Epilogue::Relu};
  CHECK(contraction_error<float>(batches) < 1e-5);
  const Contraction of_nothing{
      .m = 6, .n = 10, .k = 0, .a = {1, 1}, .b = {10, 1}, .y = {10, 1}, .epilogue = Epilogue::Bias};
  CHECK(contraction_error<float>(of_nothing) == 0);
  const Contraction vectors{.m = 1, .n = 1, .k = 9, .a = {9, 1}, .b = {1, 1}, .y = {1, 1}};
  CHECK(contraction_error<float>(vectors) < 1e-5);
}

TEST_CASE("cuda steps: a signal orders two streams; a graph replays with a new invocation") {
  for (const bool graph : {true, false}) {
    CAPTURE(graph);
    Wrong wrong{0};
    const Own<int64_t> sum{0, 1};
    const Own<float> x{sum.end(), 64}, y{x.end(), 64};
    const Signal done{0, 1};
    int iteration = 0, walks = 0;
    const int code = run_ranks({.count = 1, .streams = 2, .iterations = 5, .graph = graph}, [&](Rank& r) {
      if (walks++ == 0) put(r[sum], std::vector<int64_t>{0}), put(r[x], std::vector<float>(64, 3.0f));
      r.step({1, "scale", "Mul scale"}, [&] {
        r.launch(cuda_kernels::scale, {.blocks = 1, .threads = 64}, r[x], r[y], 64, 2);
        r.signal(done);
      });
      r.step({0, "count", "Add count"}, [&] {
        r.wait(done);
        r.copy(r[x], r[y], 1);
        r.launch(cuda_kernels::count_up, {}, r.invocation_at(), r[sum]);
      });
      ++iteration;
    });
    CHECK(code == 0);
    CHECK(walks == (graph ? 2 : 5));  // eager, captured, replayed three times
  }
}

TEST_CASE("cuda steps: values and numbers that the host reads and writes keep a program eager") {
  Wrong wrong{0};
  const Own<int64_t> trips{0, 1}, sum{trips.end(), 1}, part{sum.end(), 1};
  const int code = run_ranks({.count = 1, .streams = 2, .iterations = 3}, [&](Rank& r) {
    r.step({1, "trips", "Constant trips"}, [&] { r.set(r[trips], 4); });
    for (int64_t trip = 0; trip < r.value(r[trips]); ++trip) {
      r.step({0, "body", "Loop body"}, trip, [&] {
        r.set(r[part], trip + 1);
        r.accumulate(ReduceOp::Sum, r[sum], r[part], 1, trip == 0);
      });
    }
    wrong += r.value(r[sum]) != 10;
  });
  CHECK(code == 0);
  CHECK(wrong == 0);
}

TEST_CASE("cuda steps: a fused kernel over the peer table") {
  for (const int count : {1, 2, 4}) {
    CAPTURE(count);
    Wrong wrong{0};
    const Window<float> x{0, 64}, y{x.end(), 64};
    const Signal ready{0, 1, all_ranks(count)};
    const int code = run_ranks({.count = count, .streams = 2, .iterations = 4}, [&](Rank& r) {
      r.step({1, "far", "Add far", "fuse"}, [&] {
        r.launch_resident(cuda_kernels::all_reduce, {.blocks = 2, .threads = 32}, r.peers(all_ranks(count)), ready, x,
                          y);
      });
      r.step({0, "produce", "Mul produce"}, [&] {
        put(r[x], std::vector<float>(64, float(r.rank + 1)));
        r.signal(ready);
      });
      for (const float v : {r.value(r[y]), r.value(r[y] + 63)}) wrong += v != float(count * (count + 1) / 2);
    });
    CHECK(code == 0);
    CHECK(wrong == 0);
  }
}

TEST_CASE("cuda steps: a kernel takes steps with another stream of its rank, and stays out of graphs") {
  constexpr int kSteps = 4, kCount = 100;
  const Own<float> x{0, kCount}, from{x.end(), kCount}, doubled{from.end(), kCount}, sum{doubled.end(), kCount};
  const Signal given{0, kSteps, {}, true}, taken{given.end(), kSteps, {}, true};
  const auto run = [&](unsigned blocks, int last_given, double timeout, int& walks) {
    Wrong wrong{0};
    const int code = run_ranks({.count = 1, .streams = 2, .iterations = 3, .timeout = timeout}, [&](Rank& r) {
      if (walks++ == 0) put(r[x], filled<float>(kCount, [](int64_t i) { return float(i); }));
      r.step({0, "steps", "Mul steps", "overlap"}, [&] {
        r.prepare({});
        r.launch_resident(cuda_kernels::sum_steps, {.blocks = blocks, .threads = 32}, r.peers({}), given, taken, kSteps,
                          kCount, r[from], r[doubled], r[sum]);
      });
      for (int step = 0; step < kSteps; ++step)
        r.step({1, "give", "Mul give", "overlap"}, step, [&] {
          if (step >= 1) r.wait(taken, step - 1);
          r.launch(cuda_kernels::scale, {.blocks = 1, .threads = 64}, r[x], r[from], kCount, step + 1);
          if (step <= last_given) r.signal(given, step);
        });
      if (walks < 3) return;  // no graph has the host's reads either
      r.step({0, "read", "Mul read"}, [&] {
        const std::vector<float> got = get(r, r[sum], kCount);
        for (int i = 0; i < kCount; ++i) wrong += got[size_t(i)] != float(20 * (kCount - 1 - i));
      });
    });
    CHECK(wrong == 0);
    return code;
  };
  for (const unsigned blocks : {1u, 3u, 32u}) {
    int walks = 0;
    CHECK(run(blocks, kSteps, 20, walks) == 0);
    CHECK(walks == 3);
  }
  int walks = 0;
  CHECK(run(3, 1, 0.2, walks) == 124);
}

TEST_CASE("cuda steps: a slice of an own buffer; a barrier; one rank's slice of a ragged dim") {
  Wrong wrong{0};
  const Own<float> whole{0, 10}, part{whole.end(), 4};
  const int code = run_step({.count = 3}, [&](Rank& r) {
    put(r[whole], filled<float>(10, [](int64_t i) { return float(i); }));
    put(r[part], std::vector<float>(4, -1.0f));
    r.take_slice(all_ranks(3), r[whole], r[part],
                 {.dims = {{4, 1, 1}}, .src_by_me = {4}, .by_me = {.dim = 0, .extent = 10, .block = 4}});
    r.barrier(all_ranks(3));
    const std::vector<float> got = get(r, r[part], 4);
    for (int i = 0; i < 4; ++i) wrong += got[size_t(i)] != (r.rank * 4 + i < 10 ? float(r.rank * 4 + i) : -1.0f);
  });
  CHECK(code == 0);
  CHECK(wrong == 0);
}

TEST_CASE("cuda steps: an index outside is the input's fault, after the iteration") {
  const auto run = [&](int64_t count, int64_t first) {
    return run_step({.count = 1}, [&](Rank& r) {
      r.launch(cuda_kernels::look_up, {2, 32}, r.indices_of("node 'look'"), count, first, 100);
    });
  };
  CHECK(run(200, -100) == 0);
  CHECK(run(0, 100) == 0);
  CHECK(run(201, -100) == 1);
  CHECK(run(1, -101) == 1);
}

TEST_CASE("cuda steps: a flag that nobody signals times out; so does a collective that a rank does not enter") {
  const Signal flag{0, 1, all_ranks(2)};
  const auto code_without = [&](int missing) {
    return run_ranks({.count = 2, .timeout = 0.2}, [&, missing](Rank& r) {
      if (r.rank != missing) r.step({0, "raise", "Mul raise"}, [&] { r.signal(flag); });
      r.step({0, "forgotten", "Add x", "overlap"}, [&] { r.wait(flag); });
    });
  };
  CHECK(code_without(-1) == 0);
  CHECK(code_without(1) == 124);
  const Window<float> x{0, 1};
  CHECK(run_ranks({.count = 2, .timeout = 0.2}, [&](Rank& r) {
          if (r.rank == 0) r.step({0, "sum", "Sum sum"}, [&] { r.all_reduce(all_ranks(2), ReduceOp::Sum, x, x, 1); });
        }) == 124);
}

TEST_CASE("cuda steps: waiting for a signal that was not issued is a bug of the compiler") {
  const Signal never{0, 1};
  CHECK(run_step({.count = 1}, [&](Rank& r) { r.wait(never); }) == 70);
}

// The emulation ends a process in which a product is new to the library while another rank's kernel waits.
TEST_CASE("cuda steps: ranks on one device have loaded their products before one of them waits on it") {
  if (getenv("WEFT_EMULATION_NCCL") != nullptr) return;  // each has a device of its own there
  constexpr int64_t kSide = 4, kIterations = 3;
  constexpr useconds_t kWaits = 10'000;  // us, until the kernel does surely wait
  const Own<float> x{0, kSide * kSide}, w{x.end(), kSide * kSide}, y{w.end(), kSide * kSide}, before{y.end(), 1};
  const Own<bool> condition{before.end(), 1};
  const Group both = all_ranks(2);
  const Signal first{0, 1, both}, second{first.end(), 1, both};
  Wrong wrong{0};
  std::atomic<int> walks[2] = {};
  const auto is_product = [&](Rank& r, int64_t side) {
    bool out = true;
    for (const float value : get(r, r[y], side * side)) out &= value == 6 * float(side);
    return out;
  };
  // The rank that signals has products first, and the other one waits meanwhile.
  const auto in_turn = [&](Rank& r, int64_t side, const Signal& signal) {
    const Contraction product{.m = side, .n = side, .k = side, .a = {side, 1}, .b = {side, 1}, .y = {side, 1}};
    r.step({0, "product", "MatMul product"}, [&] {
      if (r.rank == 1) r.signal(signal), r.wait(signal);
      usleep(kWaits);
      r.copy(r[before], r[y], 1);
      r.contract<float>(product, r[x], r[w], nullptr, r[y]);
      if (r.rank == 0) r.signal(signal);
    });
  };
  const int code = run_ranks({.count = 2, .iterations = kIterations}, [&](Rank& r) {
    if (walks[r.rank]++ == 0) {  // the rehearsal: what it finds is what the first iteration has to find too
      put(r[x], std::vector<float>(kSide * kSide, 2.0f));
      put(r[w], std::vector<float>(kSide * kSide, 3.0f));
      put(r[y], std::vector<float>(kSide * kSide, 5.0f));
      put(r[condition], std::vector<bool>{true});
    }
    in_turn(r, kSide, first);
    r.step({0, "look", "If look"}, [&] {
      if (!r.value(r[condition])) return;
      wrong += r.value(r[before]) != (walks[r.rank] == 2 ? 5 : 6 * float(kSide - 1));
      wrong += !is_product(r, kSide);
    });
    in_turn(r, kSide - 1, second);
    r.step({0, "look_again", "Identity look_again"}, [&] { wrong += !is_product(r, kSide - 1); });
  });
  CHECK(code == 0);
  CHECK(wrong == 0);
  for (const int count : {0, 1}) CHECK(walks[count] == kIterations + 1);
}
