// The reported peak of a memory equals the bytes of buffers, counted one by one at every step.
#include "passes/plan/memory_peak.h"

#include "ir/plan_walk.h"
#include "test/fixtures.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// Units of kBufferAlign that live buffers of one memory cover at a position: shared ones count once.
int64_t covered_bytes(const Plan& plan, const Program& program, MemoryKind kind, const LiveRanges& ranges, int at) {
  std::set<int64_t> units;
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    const Position& position = program.positions[b];
    const LiveRange range = ranges.in_memory(b);
    const MemoryKind its = buffer.life == Life::Block ? MemoryKind::Thread
                           : buffer.window            ? MemoryKind::Window
                                                      : MemoryKind::Own;
    if (position.kind == Position::Kind::Absent || its != kind || at < range.first || at > range.last) continue;
    for (int64_t byte = 0; byte < buffer.bytes * buffer.depth; byte += kBufferAlign)
      units.insert((position.offset + byte) / kBufferAlign);
  }
  return static_cast<int64_t>(units.size()) * kBufferAlign;
}

void check_memory(const Plan& plan, const Program& program, MemoryKind kind, int64_t size) {
  const LiveRanges ranges(plan);
  const MemoryPeak peak = memory_peak(plan, program, kind, ranges);
  CHECK(peak.size == size);
  CHECK(peak.bytes <= size);
  CHECK(peak.bytes == covered_bytes(plan, program, kind, ranges, peak.at));
  for (int at = 0; at <= ranges.end(); ++at) CHECK(covered_bytes(plan, program, kind, ranges, at) <= peak.bytes);
  int64_t sum = 0, last = INT64_MAX;
  std::set<BufferId> listed;
  for (const HeldMemory& held : peak.held) {
    CHECK(held.bytes <= last);
    sum += held.bytes, last = held.bytes;
    for (const BufferId buffer : held.buffers) CHECK(listed.insert(buffer).second);
  }
  CHECK(sum == peak.bytes);
}

void check_memories(const Plan& plan) {
  const LiveRanges ranges(plan);
  for (size_t b = 0; b < plan.buffers.size(); ++b)  // asked again, the planner's ranges are what it placed by
    if (const LiveRange range = ranges.in_memory(b); range.used()) CHECK(plan.buffers[b].live == ranges.text(range));
  for (const Program& program : plan.programs) {
    check_memory(plan, program, MemoryKind::Own, program.own_bytes);
    check_memory(plan, program, MemoryKind::Window, program.window_bytes);
    check_memory(plan, program, MemoryKind::Thread, program.thread_bytes);
  }
}

Planned checked(const std::string& model, const std::string& yaml = "") {
  Planned made = plan_of(model, yaml);
  for (const std::string& wrong : prove_plan(made.plan)) CHECK_MESSAGE(false, wrong);
  check_memories(made.plan);
  return made;
}

/// "step: a 512, b c 256" of the peak of a program.
std::string peak_of(const Planned& made, MemoryKind kind = MemoryKind::Own, size_t program = 0) {
  const LiveRanges ranges(made.plan);
  const MemoryPeak peak = memory_peak(made.plan, made.plan.programs[program], kind, ranges);
  std::vector<std::string> buffers;
  for (const HeldMemory& held : peak.held) {
    std::string text;
    for (const BufferId id : held.buffers) text += made.plan.buffer(id).name + " ";
    buffers.push_back(text + std::to_string(held.bytes));
  }
  return ranges.name(peak.at) + ": " + join(buffers, ", ");
}

}  // namespace

TEST_CASE("memory peak: a plain model, and ranks that write a sum where its parts lie") {
  CHECK(peak_of(checked(kMlp)) == "proj: act 1024, x 512, residual 512");
  const Planned sliced = checked(kMlp, kTp2);
  CHECK(peak_of(sliced) == "fc: x 512, act 512");
  CHECK(peak_of(sliced, MemoryKind::Window) == "proj: proj proj.sum 512");
}

TEST_CASE("memory peak: all instances of a chunk's buffer count") {
  const Planned made = checked(kMlp, kTp2Overlap);
  CHECK(peak_of(made, MemoryKind::Window) == "overlap proj, far: residual.gather 512, proj 512");
  const auto is_proj = [](const Buffer& buffer) { return buffer.name == "proj"; };
  const auto proj = std::find_if(made.plan.buffers.begin(), made.plan.buffers.end(), is_proj);
  REQUIRE(proj != made.plan.buffers.end());
  CHECK(proj->bytes * proj->depth == 512);
  CHECK(proj->depth == 2);
}

TEST_CASE("memory peak: the step of a stage is one that the program runs") {
  const Planned made = checked(kMlp, kTwoStages);
  REQUIRE(made.plan.programs.size() == 2);
  CHECK(peak_of(made) == "fc: x 512");
  CHECK(peak_of(made, MemoryKind::Own, 1) ==
        "act.slice: x.to.second 512, residual 512, act.to.second 512, act.slice 256");
  const LiveRanges ranges(made.plan);
  for (const Program& program : made.plan.programs) {
    const MemoryPeak peak = memory_peak(made.plan, program, MemoryKind::Own, ranges);
    REQUIRE(ranges.block(peak.at) < made.plan.blocks.size());
    CHECK(holds(made.plan, program, made.plan.blocks[ranges.block(peak.at)].place));
  }
}

TEST_CASE("memory peak: what lies between the kernels of a chain is memory of threads") {
  const Planned made = checked(R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[1,8,128,4] q, float[1,8,4,256] k, float[1,8,256,4] v) => (float[1,8,128,4] y)
{ s = MatMul(q, k) p = Softmax(s) y = MatMul(p, v) })");
  CHECK(peak_of(made) == "y: k 32768, v 32768, q 16384, y 16384");
  CHECK(peak_of(made, MemoryKind::Thread) == "y: s p/Exp 73728, p/ReduceSum 512");
}

TEST_CASE("memory peak: what a loop carries is counted once where it is updated in place") {
  const char* const model = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[4,4] x, float[4,4] z) => (float[4,4] y, float[4,4] u)
<int64 n = {5}, bool yes = {1}>
{ y, u = Loop (n, yes, x, z) <body = b (int64 i, bool c, float[4,4] v, float[4,4] w) =>
    (bool d, float[4,4] r, float[4,4] s)
    { d = Identity(c) p = MatMul(w, w) q = Relu(p) t = Transpose(q) r = Add(v, t) s = Neg(w) }> })";
  CHECK(peak_of(checked(model)) == "p: x 256, z 256, y r 256, u s 256, t 256");
}

TEST_CASE("memory peak: a state is counted once in place, and twice where it is copied") {
  const char* const model = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[8,6] x, float[8,6] a, float[6,6] b) => (float[8,6] a_next, float[6,6] b_next)
{ a_next = Add(a, x) b_next = MatMul(b, b) })";
  CHECK(peak_of(checked(model, "weft: 1\nstate: {a: a_next, b: b_next}\n")) ==
        "b_next: x 256, a a_next 256, b 256, b_next 256");
}

TEST_CASE("memory peak: a gap that no later buffer fits in is not live") {
  const Planned made = checked(R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[64] x) => (float[4096] y)
<float[64,512] u = random(1, 0.5), float[512,1024] v = random(2, 0.5), float[1024,4096] w = random(3, 0.5)>
{ a = MatMul(x, u) b = MatMul(a, v) y = MatMul(b, w) })");
  const MemoryPeak peak = memory_peak(made.plan, made.plan.programs[0], MemoryKind::Own, LiveRanges(made.plan));
  CHECK(peak_of(made) == "y: y/MatMul 16384, b/MatMul 4096, x 256");
  CHECK(peak.size == peak.bytes + 2048);  // where `a` lay
}

TEST_CASE("memory peak: fixtures on both targets") {
  for (const std::string& name : fixture_names(false)) {
    CAPTURE(name);
    const Fixture fixture = read_fixture(name);
    const auto made = prepare(fixture.model, fixture.yaml, "");
    REQUIRE(made->ok());
    for (const Target& target : {Target{}, cuda_target({"sm_90"})}) {
      const std::optional<Plan> plan = make_plan(*made->module, target, made->diags);
      REQUIRE(plan);
      check_memories(*plan);
    }
  }
}
