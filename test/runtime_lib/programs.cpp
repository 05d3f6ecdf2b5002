// Programs as the compiler emits them, written by hand: the tests run them as processes. WEFT_TEST_PROGRAM names one.
#include <cstdlib>
#include <string_view>

#include "weft/contract.h"
#include "weft/host.h"
#include "weft/math.h"

enum : int { compute, comm };
constexpr weft::Stream kStreams[] = {{"compute", true}, {"comm"}};
constexpr int64_t kRows = 8, kWidth = 16, kHidden = 32;

/// gelu(x @ w1) @ w2 + x on n ranks: w1 is sliced by columns, w2 by rows, and the sum over ranks runs on a stream of
/// its own.
template <int ranks>
struct Mlp {
  static constexpr int64_t kPart = kHidden / ranks;
  static constexpr weft::Axis tp{.name = "tp", .size = ranks, .stride = 1, .id = 0};
  static constexpr weft::Axis kMesh[] = {tp};

  static constexpr weft::Own<float> x{0, kRows* kWidth};
  static constexpr weft::Own<float> hidden{x.end(), kRows* kPart};
  static constexpr weft::Own<float> y{hidden.end(), kRows* kWidth / ranks};
  static constexpr weft::Window<float> partial{0, kRows* kWidth};

  static constexpr weft::Signal partial_done{0, 1};
  static constexpr weft::Signal sum_done{partial_done.end(), 1};

  static constexpr weft::Weight<float> w1{0, weft::packed_count(kPart, kWidth)};
  static constexpr weft::Weight<float> w2{w1.end(), weft::packed_count(kWidth, kPart)};
  static constexpr weft::Segment kWeights[] = {{w2.end(), tp}};

  static void run(weft::Rank& r) {
    r.step({compute, "fc", "MatMul fc, Gelu gelu"}, [&] {
      weft::contract<float>(r.team(), {kRows, kPart, kWidth}, weft::Rows<float>{r[x], kWidth}, r[w1],
                            [&, to = r[hidden]](int64_t m, int64_t n, auto width, const float* sums) {
                              for (int64_t j = 0; j < width; ++j) to[m * kPart + n + j] = weft::gelu_erf(sums[j]);
                            });
    });
    r.step({compute, "proj", "MatMul proj"}, [&] {
      weft::contract<float>(r.team(), {kRows, kWidth, kPart}, weft::Rows<float>{r[hidden], kPart}, r[w2],
                            [&, to = r[partial]](int64_t m, int64_t n, auto width, const float* sums) {
                              for (int64_t j = 0; j < width; ++j) to[m * kWidth + n + j] = sums[j];
                            });
      r.signal(partial_done);
    });
    r.step({comm, "proj.sum", "MatMul proj", "shard proj.weight"}, [&] {
      r.wait(partial_done);
      const weft::Exchange rows{.dims = {{kRows / ranks, kWidth, kWidth}, {kWidth, 1, 1}},
                                .src_by_me = {kRows / ranks * kWidth}};
      r.reduce_scatter(tp, weft::ReduceOp::Sum, partial, r[y], rows);
      r.signal(sum_done);
    });
    r.step({compute, "residual", "Add residual"}, [&] {
      r.wait(sum_done);
      const int64_t first = r.index(tp) * (kRows / ranks) * kWidth;
      r.team().parallel(y.count, 64, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) r[y][i] += r[x][first + i];
      });
    });
  }

  static constexpr weft::Slice kSlicedRows[] = {{0, kRows / ranks, tp}};
  static constexpr weft::Port kInputs[] = {{"x", {kRows, kWidth}, x}};
  static constexpr weft::Port kOutputs[] = {{"y", {kRows, kWidth}, y, {.slices = kSlicedRows}}};
  static constexpr weft::Program kPrograms[] = {{.streams = kStreams,
                                                 .inputs = kInputs,
                                                 .outputs = kOutputs,
                                                 .weights = kWeights,
                                                 .own_bytes = y.end(),
                                                 .window_bytes = partial.end(),
                                                 .signals = sum_done.end(),
                                                 .run = run}};
  static constexpr weft::Executable kExecutable{.name = "mlp", .world = ranks, .axes = kMesh, .programs = kPrograms};
};

/// Two stages on places of 1 and 2 ranks, 4 micro-batches, buffers of depth 2; the first scales, the second adds one.
namespace staged {

enum : int { run_stage, send, recv };
constexpr weft::Stream kPipeStreams[] = {{"compute", true}, {"send"}, {"recv"}};
constexpr int kBatches = 4, kDepth = 2;
constexpr int64_t kSize = 6;  // elements of a micro-batch
constexpr int kFirstRanks[] = {2}, kSecondRanks[] = {0, 1};
constexpr weft::Axis ep{.name = "ep", .size = 2, .stride = 1, .id = 0, .ranks = kSecondRanks};

constexpr weft::Window<float> scaled{0, kSize* kDepth};
constexpr weft::Own<float> x{0, kSize* kBatches};
constexpr weft::Own<float> half{0, kSize / 2 * kDepth}, y{half.end(), kSize / 2 * kBatches};

constexpr weft::Message kRowsOf[] = {{2, 0, 0, 0, {{kSize / 2, 1, 1}}}, {2, 1, kSize / 2, 0, {{kSize / 2, 1, 1}}}};
constexpr weft::Transfer kMove{0, kBatches, kRowsOf};
constexpr weft::Signal scaled_done{kMove.end(), kBatches}, sent{scaled_done.end(), kBatches};
constexpr weft::Signal received{sent.end(), kBatches}, used{received.end(), kBatches};

void run_first(weft::Rank& r) {
  for (int b = 0; b < kBatches; ++b) {
    const auto buffer = scaled.part(b % kDepth * kSize, kSize);
    r.step({run_stage, "scale", "Mul scale", "pipeline"}, b, [&] {
      if (b >= kDepth) r.wait(sent, b - kDepth);
      for (int64_t i = 0; i < kSize; ++i) r[buffer][i] = 10 * r[x][b * kSize + i];
      r.signal(scaled_done, b);
    });
    r.step({send, "scale.send", "Mul scale", "pipeline"}, b, [&] {
      r.wait(scaled_done, b);
      r.send(kMove, b, buffer);
      r.signal(sent, b);
    });
  }
}

void run_second(weft::Rank& r) {
  for (int b = 0; b < kBatches; ++b) {
    const auto into = half.part(b % kDepth * (kSize / 2), kSize / 2);
    r.step({recv, "scale.recv", "Mul scale", "pipeline"}, b, [&] {
      if (b >= kDepth) r.wait(used, b - kDepth);
      r.recv(kMove, b, scaled.part(b % kDepth * kSize, kSize), r[into]);
      r.signal(received, b);
    });
    r.step({run_stage, "add", "Add add", "pipeline"}, b, [&] {
      r.wait(received, b);
      for (int64_t i = 0; i < kSize / 2; ++i) r[y][b * (kSize / 2) + i] = r[into][i] + 1;
      r.signal(used, b);
    });
  }
}

constexpr weft::Slice kSlices[] = {{1, kSize / 2, ep}};
constexpr weft::Port kInputs[] = {{"x", {kBatches, kSize}, x}};
constexpr weft::Port kOutputs[] = {{"y", {kBatches, kSize}, y, {.slices = kSlices}}};
constexpr weft::Program kPrograms[] = {{.ranks = kFirstRanks,
                                        .streams = kPipeStreams,
                                        .inputs = kInputs,
                                        .own_bytes = x.end(),
                                        .window_bytes = scaled.end(),
                                        .signals = used.end(),
                                        .run = run_first},
                                       {.ranks = kSecondRanks,
                                        .streams = kPipeStreams,
                                        .outputs = kOutputs,
                                        .own_bytes = y.end(),
                                        .window_bytes = scaled.end(),
                                        .signals = used.end(),
                                        .run = run_second}};
constexpr weft::Executable kExecutable{.name = "staged", .world = 3, .programs = kPrograms};

}  // namespace staged

/// A cache that grows by the rows of its input, and a counter: states, one with a run-time length.
namespace cache {

constexpr int64_t kBound = 5;
constexpr const char* kLengths[] = {"past", "rows"};
constexpr weft::Own<int64_t> rows{0, 1}, old_length{rows.end(), 1};
constexpr weft::Own<float> x{old_length.end(), 2 * 3}, past{x.end(), kBound * 3};
constexpr weft::Own<int32_t> count{past.end(), 1}, next_count{count.end(), 1};

void run(weft::Rank& r) {
  r.step({0, "cat", "Concat cat"}, [&] {
    weft::IndexRange looked_up;
    looked_up.add(r[x][0] < 0 ? 7 : 0);
    r.indices_of("node 'look'").demand(looked_up, 5);
    const int64_t old = r[old_length][0];
    for (int64_t i = 0; i < r[rows][0] * 3; ++i) r[past][old * 3 + i] = r[x][i];
  });
  r.step({0, "count", "Add count"}, [&] { r[next_count][0] = r[count][0] + 1; });
  r.step({0, "count.next", ""}, [&] { r.copy(r[count], r[next_count], 1); });
}

constexpr weft::Stream kOne[] = {{"compute"}};
constexpr weft::Length kSum = [](const int64_t* n) { return n[0] + n[1]; };
constexpr weft::LengthLimit kLimits[] = {{"state 'past' ('present')", kSum, 0, kBound}};
constexpr weft::LengthSlot kSlots[] = {{0, old_length}, {1, rows}};
constexpr weft::Bound kRowsBound[] = {{0, 1}}, kOldBound[] = {{0, 0}}, kNewBound[] = {{0, kSum}};
constexpr weft::Port kInputs[] = {
    {"x", {2, 3}, x, {.bounds = kRowsBound}}, {"past", {kBound, 3}, past, {.bounds = kOldBound}}, {"count", {}, count}};
constexpr weft::Port kOutputs[] = {{"present", {kBound, 3}, past, {.bounds = kNewBound}}, {"next", {}, next_count}};
constexpr weft::State kStates[] = {{"past", "present"}, {"count", "next"}};
constexpr weft::Program kPrograms[] = {{.streams = kOne,
                                        .inputs = kInputs,
                                        .outputs = kOutputs,
                                        .lengths = kSlots,
                                        .own_bytes = next_count.end(),
                                        .run = run}};
constexpr weft::Executable kExecutable{
    .name = "cache", .programs = kPrograms, .states = kStates, .lengths = kLengths, .limits = kLimits};

}  // namespace cache

/// Two states and an input whose first dimension is one dim of the model, held by one rank each of two programs: the
/// first has both states, the second the input and the second state.
namespace shared {

constexpr int64_t kBound = 4;
constexpr const char* kLengths[] = {"length"};
constexpr weft::Own<int64_t> length{0, 1};
constexpr weft::Own<float> keys{length.end(), kBound}, values{keys.end(), kBound}, mask{values.end(), kBound};

void run(weft::Rank& r) {
  r.step({0, "grow", "Concat grow"}, [&] { r[keys][r[length][0]] = 1; });
}

constexpr weft::Length kGrown = [](const int64_t* n) { return n[0] + 1; };
constexpr weft::LengthLimit kLimits[] = {{"state 'values' ('new_values')", kGrown, 0, kBound}};
constexpr weft::LengthSlot kSlots[] = {{0, length}};
constexpr int kRank0[] = {0}, kRank1[] = {1};
constexpr weft::Stream kOne[] = {{"compute"}};
constexpr weft::Bound kOld[] = {{0, 0}}, kNew[] = {{0, kGrown}};
constexpr weft::Port kInputs0[] = {{"keys", {kBound}, keys, {.bounds = kOld}},
                                   {"values", {kBound}, values, {.bounds = kOld}}};
constexpr weft::Port kOutputs0[] = {{"new_keys", {kBound}, keys, {.bounds = kNew}},
                                    {"new_values", {kBound}, values, {.bounds = kNew}}};
constexpr weft::Port kInputs1[] = {{"mask", {kBound}, mask, {.bounds = kOld}},
                                   {"values", {kBound}, values, {.bounds = kOld}}};
constexpr weft::Port kOutputs1[] = {{"new_values", {kBound}, values, {.bounds = kNew}}};
constexpr weft::State kStates[] = {{"keys", "new_keys"}, {"values", "new_values"}};
constexpr weft::Program kPrograms[] = {{.ranks = kRank0,
                                        .streams = kOne,
                                        .inputs = kInputs0,
                                        .outputs = kOutputs0,
                                        .lengths = kSlots,
                                        .own_bytes = mask.end(),
                                        .run = run},
                                       {.ranks = kRank1,
                                        .streams = kOne,
                                        .inputs = kInputs1,
                                        .outputs = kOutputs1,
                                        .lengths = kSlots,
                                        .own_bytes = mask.end(),
                                        .run = run}};
constexpr weft::Executable kExecutable{
    .name = "shared", .world = 2, .programs = kPrograms, .states = kStates, .lengths = kLengths, .limits = kLimits};

}  // namespace shared

int main(int argc, char** argv) {
  const char* name = getenv("WEFT_TEST_PROGRAM");
  const std::string_view program = name == nullptr ? "" : name;
  if (program == "mlp1") return weft::main(Mlp<1>::kExecutable, argc, argv);
  if (program == "mlp2") return weft::main(Mlp<2>::kExecutable, argc, argv);
  if (program == "mlp4") return weft::main(Mlp<4>::kExecutable, argc, argv);
  if (program == "staged") return weft::main(staged::kExecutable, argc, argv);
  if (program == "shared") return weft::main(shared::kExecutable, argc, argv);
  if (program == "cache") return weft::main(cache::kExecutable, argc, argv);
  return 2;
}
