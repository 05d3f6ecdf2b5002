// A handwritten program in the form that the compiler emits: x @ w on 2 ranks, with w sliced by rows. It sums over the
// ranks twice: by the runtime's all-reduce, and inside a kernel that waits for its peers chunk by chunk.
#include "weft/cuda.h"

namespace emulated {

constexpr weft::Axis tp{.name = "tp", .size = 2, .stride = 1, .id = 0};
constexpr weft::Axis kMesh[] = {tp};
enum : int { compute, comm };
constexpr weft::Stream kStreams[] = {{"compute"}, {"comm"}};
constexpr int64_t rows = 8, depth = 32, cols = 48, part = depth / 2;

constexpr weft::Own<float> x{0, rows* depth};
constexpr weft::Own<float> mine{x.end(), rows* part};
constexpr weft::Own<float> w{mine.end(), part* cols};
constexpr weft::Own<float> bias{w.end(), cols};
constexpr weft::Own<float> y{bias.end(), rows* cols};
constexpr weft::Window<float> partial{0, rows* cols};
constexpr weft::Window<float> fused{partial.end(), rows* cols};

constexpr weft::Signal partial_done{0, 4, tp};
constexpr weft::Signal fused_may_start{partial_done.end(), 1};
constexpr weft::Signal summed{fused_may_start.end(), 1};

void take_columns(const float* x, float* mine, int64_t rank);
void normalise(const float* x, float* y);
void make_weights(float* w, float* bias, int64_t rank);
void sum_over_tp(weft::Peers tp, weft::Signal done, weft::Window<float> partial, weft::Window<float> fused);

void run(weft::Rank& r) {
  r.step({compute, "weights", "made here"},
         [&] { r.launch(make_weights, {.blocks = 4, .threads = 64}, r[w], r[bias], r.index(tp)); });
  r.step({compute, "slice", "x"}, [&] {
    r.launch(normalise, {.blocks = rows, .threads = 32}, r[x], r[x]);
    r.launch(take_columns, {.blocks = 4, .threads = 64}, r[x], r[mine], r.index(tp));
    r.signal(fused_may_start);
  });
  r.step({comm, "fused", "Sum fused", "fuse"}, [&] {
    r.wait(fused_may_start);
    r.launch_resident(sum_over_tp, {.blocks = 4, .threads = 128}, r.peers(tp), partial_done, partial, fused);
    r.signal(summed);
  });
  for (int chunk = 0; chunk < 4; ++chunk)
    r.step({compute, "matmul", "MatMul matmul", "overlap"}, chunk, [&] {
      const int64_t first = chunk * (rows / 4);
      r.contract<float>({.m = rows / 4,
                         .n = cols,
                         .k = part,
                         .a = {part, 1},
                         .b = {cols, 1},
                         .y = {cols, 1},
                         .epilogue = weft::Epilogue::Bias},
                        r[mine] + first * part, r[w], r[bias], r[partial] + first * cols);
      r.signal(partial_done, chunk);
    });
  r.step({comm, "sum", "Sum sum"}, [&] {
    for (int chunk = 0; chunk < 4; ++chunk) r.wait(partial_done, chunk);
    r.all_reduce(tp, weft::ReduceOp::Sum, partial, r[y], y.count);
  });
}

constexpr weft::Port kInputs[] = {{"x", {rows, depth}, x}};
constexpr weft::Port kOutputs[] = {{"y", {rows, cols}, y}, {"fused", {rows, cols}, fused}};
constexpr weft::Program kPrograms[] = {{.streams = kStreams,
                                        .inputs = kInputs,
                                        .outputs = kOutputs,
                                        .own_bytes = y.end(),
                                        .window_bytes = fused.end(),
                                        .signals = summed.end(),
                                        .run = run}};
constexpr weft::Executable kExecutable = {.name = "emulated", .world = 2, .axes = kMesh, .programs = kPrograms};

}  // namespace emulated

int main(int argc, char** argv) { return weft::main(emulated::kExecutable, argc, argv); }
