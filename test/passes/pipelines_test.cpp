// Pipelines over places that overlap, and what stages, orders and loops may be: proved, and run as one rank does.
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

void check_runs(const std::string& model, const std::string& yaml) {
  const Planned made = plan_of(model, yaml);
  INFO(yaml);
  for (const std::string& line : prove_plan(made.plan)) CHECK_MESSAGE(false, line);
  const auto one = prepare(model, "", "decompose");
  const EvalResult expected = evaluate(*one->module, seeded_inputs(*one->module));
  REQUIRE(expected.error.empty());
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const PlanRun run = evaluate_plan(made.plan, port_inputs(made.plan), seed);
    INFO(run.error);
    REQUIRE(run.error.empty());
    REQUIRE(run.outputs.size() == expected.outputs.size());
    for (size_t i = 0; i < run.outputs.size(); ++i) CHECK(relative_error(run.outputs[i], expected.outputs[i]) < 2e-5);
  }
}

const char* const kChain = R"(<ir_version: 10, opset_import: ["" : 20]>
p (float[24,4] x) => (float[24,4] y)
{ [fc] h = Relu(x)
  [act] a = Tanh(h)
  [res] t = Add(a, h)
  [mid] u = Mul(t, x)
  [end] y = Sigmoid(u) })";

std::string pipeline(const std::string& places, const std::string& stages, int micro_batches,
                     const std::string& order) {
  return "weft: 1\nplaces: {" + places + "}\npipeline:\n  stages: {" + stages +
         "}\n  micro_batches: " + std::to_string(micro_batches) + "\n  order: " + order + "\n";
}

/// The diagnostics that refuse a schedule of the chain.
std::string refusal(const std::string& yaml) {
  const auto made = prepare(kChain, yaml, "");
  if (made->diags.ok()) make_plan(*made->module, made->target, made->diags);
  return made->diags.text();
}

const char* const kPlaces[] = {
    "a: {ranks: [0], mesh: {t: 1}}, b: {ranks: [1], mesh: {t: 1}}, c: {ranks: [0, 1], mesh: {t: 2}}",
    "a: {ranks: [0, 1], mesh: {t: 2}}, b: {ranks: [1, 2], mesh: {t: 2}}, c: {ranks: [2, 0], mesh: {t: 2}}",
    "a: {ranks: [3, 2, 1, 0], mesh: {d: 2, t: 2}}, b: {ranks: [1], mesh: {t: 1}}, c: {ranks: [0, 1], mesh: {t: 2}}"};

}  // namespace

TEST_CASE("stages with skip connections in places that overlap, in every order") {
  const std::string stages =
      "A: {place: a, nodes: [fc]}, B: {place: b, nodes: [act]}, C: {place: c, nodes: [res, mid]}, "
      "D: {place: a, nodes: [end]}";
  for (const char* places : kPlaces)
    for (const char* order : {"gpipe", "1f1b"})
      for (int micro_batches : {1, 2, 3, 6}) check_runs(kChain, pipeline(places, stages, micro_batches, order));
}

TEST_CASE("stages share a place, in the order of the schedule or not") {
  const std::string places = kPlaces[0];
  const std::string forward = "A: {place: c, nodes: [fc, act]}, B: {place: c, nodes: [res, mid, end]}";
  const std::string backward = "B: {place: c, nodes: [res, mid, end]}, A: {place: c, nodes: [fc, act]}";
  for (const char* order : {"gpipe", "1f1b", "[[A, 0], [A, 1], [B, 0], [A, 2], [B, 1], [B, 2]]"}) {
    check_runs(kChain, pipeline(places, forward, 3, order));
    check_runs(kChain, pipeline(places, backward, 3, order));
  }
}

TEST_CASE("a table of a pipeline whose ranks are in several places") {
  const std::string stages =
      "A: {place: a, nodes: [fc]}, B: {place: b, nodes: [act]}, "
      "C: {place: c, nodes: [res, mid, end]}";
  for (const char* places : kPlaces)
    check_runs(kChain, pipeline(places, stages, 2, "[[A, 0], [A, 1], [B, 0], [C, 0], [B, 1], [C, 1]]"));
}

TEST_CASE("an output, a view of an input and an input are sent on") {
  const std::string model = R"(<ir_version: 10, opset_import: ["" : 20]>
p (float[8,4] x) => (float[8,4] h, float[8,2,2] y, float[8,2,2] z) <int64[3] s = {8, 2, 2}>
{ [fc] h = Relu(x)
  [view] v = Reshape(x, s)
  [view2] w = Reshape(h, s)
  [act] y = Tanh(v)
  [sum] z = Add(w, v) })";
  const std::string stages = "A: {place: a, nodes: [fc, view]}, B: {place: b, nodes: [view2, act, sum]}";
  for (int micro_batches : {1, 2}) check_runs(model, pipeline(kPlaces[0], stages, micro_batches, "gpipe"));
}

TEST_CASE("a slice or a gather of a source runs in the stages that read it") {
  const std::string one_then_two = "a: {ranks: [1], mesh: {u: 1}}, b: {ranks: [0, 1], mesh: {t: 2}}";
  const auto model = [](const std::string& weight, const std::string& op) {
    return "<ir_version: 10, opset_import: [\"\" : 20]>\np (float[8,8] x) => (float[8,8] y, float[8,8] z) <" + weight +
           "> { [fc] h = Relu(x) [first] v = " + op + " [second] y = Add(v, x) [third] z = Mul(y, x) }";
  };
  const std::string stages =
      "A: {place: a, nodes: [fc]}, B: {place: b, nodes: [first, second]}, C: {place: b, nodes: [third]}";
  for (const int micro_batches : {1, 2}) {
    const std::string sliced = "shard: {w: {t: 0}}\n" + pipeline(one_then_two, stages, micro_batches, "gpipe");
    check_runs(model("float[8] w = random(1, 0.3)", "Add(h, w)"), sliced);
    check_runs(model("bool[1,8] w = {1,0,1,0,1,0,1,0}", "Where(w, h, x)"), sliced);
  }
}

TEST_CASE("a stage that only gives what it receives another shape") {
  const std::string model = R"(<ir_version: 10, opset_import: ["" : 20]>
p (float[4,8] x) => (float[4,1,8] z, float[4,1,8] d) <int64[1] axis = {1}>
{ [fc] a = Relu(x)
  [view] b = Unsqueeze(a, axis)
  [act] c = Tanh(a)
  [view2] d = Unsqueeze(c, axis)
  [end] z = Add(b, d) })";
  const std::string view_alone =
      "A: {place: a, nodes: [fc]}, B: {place: b, nodes: [view]}, C: {place: c, nodes: [act, view2, end]}";
  const std::string back =
      "A: {place: a, nodes: [fc]}, B: {place: b, nodes: [view, act, view2]}, C: {place: a, nodes: [end]}";
  const std::string result =
      "A: {place: a, nodes: [fc]}, B: {place: b, nodes: [view, act]}, C: {place: c, nodes: [view2]}, "
      "D: {place: b, nodes: [end]}";
  const std::string nothing =
      "A: {place: a, nodes: [fc]}, B: {place: b, nodes: [act]}, C: {place: b, nodes: [view]}, "
      "D: {place: b, nodes: [view2, end]}";
  for (const std::string& stages : {view_alone, back, result, nothing})
    for (const char* places : kPlaces)
      for (const int micro_batches : {1, 2}) check_runs(model, pipeline(places, stages, micro_batches, "gpipe"));
}

TEST_CASE("orders that read ahead and stages that wait for each other are refused at the order") {
  const std::string places = kPlaces[0];
  const std::string two = "A: {place: c, nodes: [fc, act]}, B: {place: c, nodes: [res, mid, end]}";
  const std::string ahead = refusal(pipeline(places, two, 2, "[[B, 0], [A, 0], [B, 1], [A, 1]]"));
  CHECK(ahead.find(":6:11: error: stage 'B' runs micro-batch 0 before stage 'A', whose") != std::string::npos);
  const std::string mutual = "A: {place: c, nodes: [fc, res, mid, end]}, B: {place: b, nodes: [act]}";
  CHECK(refusal(pipeline(places, mutual, 2, "gpipe")).find(":6:3: error: the stages 'A' and 'B' read each other's") !=
        std::string::npos);
  const std::string shared = "A: {place: c, nodes: [fc, res, mid, end]}, B: {place: c, nodes: [act]}";
  CHECK(refusal(pipeline(places, shared, 2, "gpipe")).find("a third one must hold") != std::string::npos);
}

TEST_CASE("a loop's condition: an input that the body hands on, a constant, one that the body computes") {
  const std::string head = "<ir_version: 10, opset_import: [\"\" : 20]>\n";
  check_runs(head + R"(m (float[4] x, int64 n, bool flag) => (float[4] y)
{ y = Loop(n, flag, x) <body = b (int64 i, bool c, float[4] v) => (bool c, float[4] r) { r = Tanh(v) }> })",
             "");
  check_runs(head + R"(m (float[4] x, bool flag) => (float[4] y) <int64 n = {3}>
{ y = Loop(n, flag, x) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] r)
  { r = Tanh(v)  d = Identity(c) }> })",
             "");
  for (const char* start : {"0", "1"})
    check_runs(head + "m (float[4] x) => (float[4] y) <int64 n = {3}, bool flag = {" + start + R"(}>
{ y = Loop(n, flag, x) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] r)
  { r = Tanh(v)  d = Identity(c) }> })",
               "");
  check_runs(head + R"(m (float[4] x, bool flag) => (float[4] y) <float one = {1}, float limit = {20}>
{ y = Loop(, flag, x) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] r)
  { r = Add(v, one)  s = ReduceSum <keepdims = 0> (r)  d = Less(s, limit) }> })",
             "");
}

TEST_CASE("a fused collective after a loop waits for the peers' loops") {
  check_runs(R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[4,8] x) => (float[4,8] z)
<float[8,16] w1 = random(1, 0.25), float[16,8] w2 = random(2, 0.25), int64 n = {2}>
{ [fc] a = MatMul(x, w1)
  [proj] c = MatMul(a, w2)
  y = Loop(n, , x) <body = b (int64 i, bool d, float[4,8] h) => (bool d, float[4,8] r)
  { f = MatMul(h, w1)  g = Relu(f)  p = MatMul(g, w2)  r = Add(p, h) }>
  [res] s = Add(c, y)
  [end] z = Tanh(s) })",
             R"(weft: 1
mesh: {tp: 2}
shard: {w1: {tp: 1}, w2: {tp: 0}}
transform:
  - split: {op: proj.sum, dim: 0, into: [rs, ag]}
  - reorder: {gather: ag, past: [res, end]}
  - fuse: {ops: [rs, res, end, ag], into: far}
)");
}

TEST_CASE("chunks at the ends of a block, and in the midst of one") {
  constexpr const char* kProducts = R"(<ir_version: 10, opset_import: ["" : 20]>
p (float[24,4] x) => (float[24,4] y) <float[4,4] w = random(1, 0.5), float[4,4] v = random(2, 0.5)>
{ [fc] h = MatMul(x, w) [act] a = Tanh(h) [fc2] u = MatMul(a, v) [end] y = Sigmoid(u) })";
  for (const char* stages : {"A: {place: a, nodes: [fc]}, B: {place: b, nodes: rest}",
                             "A: {place: a, nodes: [fc, act]}, B: {place: b, nodes: [fc2, end]}",
                             "A: {place: a, nodes: [fc, act, fc2]}, B: {place: b, nodes: [end]}"})
    check_runs(kProducts,
               pipeline("a: {ranks: [0, 1], mesh: {t: 2}}, b: {ranks: [2, 3], mesh: {t: 2}}", stages, 1, "gpipe") +
                   "shard: {w: {t: 0}, v: {t: 0}}\ntransform:\n  - overlap: {ops: [fc, fc.sum], chunks: 2, dim: 0}\n"
                   "  - overlap: {ops: [fc2, fc2.sum], chunks: 2, dim: 0}\n");
}
