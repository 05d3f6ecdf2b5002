// Memory that kernels take while they run, against counts by hand.
#include "ir/kernel/kernel_scratch.h"

#include "ir/segments.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

struct ScratchCase {
  const char* types;
  const char* body;
  int64_t bytes;
  const char* yaml = "";
};

Planned plan_of_case(const ScratchCase& c) {
  return plan_of("<ir_version: 10, opset_import: [\"\" : 20]>\nm " + std::string(c.types) + " {" + c.body + "}",
                 c.yaml);
}

}  // namespace

TEST_CASE("kernels take memory that grows with their operands") {
  const ScratchCase cases[] = {
      {"(float[5000] x) => (float[5000] v, int64[5000] i) <int64[1] k = {5000}>", "v, i = TopK(x, k)",
       16 * (5000 + 32)},
      {"(float[5000] x) => (float[200] v, int64[200] i) <int64[1] k = {200}>", "v, i = TopK(x, k)", 16 * (400 + 32)},
      {"(double[4, 5000] x) => (double[4, 9] v, int64[4, 9] i) <int64[1] k = {9}>", "v, i = TopK(x, k)",
       16 * (128 + 32)},
      {"(float[1000] x) => (float[8] v, int64[8] i) <int64[1] k = {8}>", "v, i = TopK(x, k)", 0},
      {"(float16[40] x, int64[9] at, float16[9] u) => (float16[40] y)",
       "y = ScatterElements <reduction = \"add\"> (x, at, u)", 4 * 40},
      {"(float[40] x, int64[900] at, float[900] u) => (float[40] y)",
       "y = ScatterElements <reduction = \"add\"> (x, at, u)", 8 * 40},
      {"(float[40] x, int64[9] at, float[9] u) => (float[40] y)",
       "y = ScatterElements <reduction = \"add\"> (x, at, u)", 0},
      {"(float[1,2,9,9] x, float[3,2,3,3] w) => (float[1,3,7,7] y)", "[c] y = Conv(x, w)", 4 * (2 * 16) * (2 * 9),
       "weft: 1\nkernels: {c: {strategy: unfolded-convolution, panels: 2}}\n"},
      {"(float[8] x) => (float[8] y)", "y = Exp(x)", 0},
  };
  for (const ScratchCase& c : cases) {
    INFO(c.types << c.body);
    const Planned made = plan_of_case(c);
    const Program& program = made.plan.programs[0];
    CHECK(scratch_bytes(made.plan, program) == c.bytes);
    CHECK(needed_bytes(made.plan, program) ==
          program.own_bytes + program.window_bytes + program.thread_bytes + image_bytes(made.plan, program) + c.bytes);
  }
}

TEST_CASE("boxes of a line are kept in a heap, and those that are chosen beside each other") {
  const Planned made = plan_of_case({"(float[1,50,4] b, float[1,2,50] s) => (int64[n, 3] y) <int64[1] most = {10}>",
                                     "y = NonMaxSuppression(b, s, most)", 0});
  CHECK(scratch_bytes(made.plan, made.plan.programs[0]) == 50 * 16 + 10 * 5 * 4);
}

TEST_CASE("an image that is convolved with innermost channels is copied with its border") {
  const Planned made = plan_of_case({"(float[3,16,8,8] x, float[32,16,3,3] w) => (float[3,32,8,8] y)",
                                     "[c] y = Conv <pads = [1, 1, 1, 1]> (x, w)", 0,
                                     "weft: 1\nkernels: {c: {strategy: direct-convolution}}\n"});
  const int64_t filters = 32 * 16 * 9, images = 3 * 16 * 10 * 10;
  CHECK(scratch_bytes(made.plan, made.plan.programs[0]) == 4 * (filters + images));
}
