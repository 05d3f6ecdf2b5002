// Loops whose rows need nothing of each other are cut along the rows; every cut computes the same.
#include "ir/plan_walk.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// A loop of five trips over two values of 12 rows, whose next ones the body calls r and s.
std::string loop(const std::string& body, const std::string& weights = "float[4,4] w = random(1, 0.3)") {
  return "<ir_version: 8, opset_import: [\"\" : 20]> m (float[12,4] x, float[12,4] z, float[5,12,4] t, float[12,12] q) "
         "=> (float[12,4] y, float[12,4] u) <int64 n = {5}, bool yes = {1}, int64 one = {1}, " +
         weights +
         "> { y, u = Loop (n, yes, x, z) <body = b (int64 i, bool c, float[12,4] v, float[12,4] h) => "
         "(bool d, float[12,4] r, float[12,4] s) { d = Identity(c) " +
         body + " }> }";
}

const LoopStep* find_loop(const Plan& plan) {
  const LoopStep* found = nullptr;
  for (const Block& block : plan.blocks)
    for_each_step(block.steps, [&](const Step& step) {
      if (const auto* trips = std::get_if<LoopStep>(&step.what)) found = trips;
    });
  return found;
}

/// The rows that threads share, 0 for none. The Plan is right, and in every order and for every cut of the rows it
/// computes what its model does.
int64_t rows_of(const std::string& model, const std::string& yaml = "") {
  const Planned made = plan_of(model, yaml);
  check_orders(made, 12);
  const LoopStep* trips = find_loop(made.plan);
  REQUIRE(trips);
  return trips->rows ? trips->rows->axes[0].count.constant() : 0;
}

/// The proof's message about a Plan with a shared loop that `spoil` changes.
template <class Spoil>
std::string spoilt(const Spoil& spoil) {
  Planned made = plan_of(loop("p = MatMul(h, w) g = Gather(t, i) a = Add(p, g) s = Tanh(a) r = Add(v, s)"));
  REQUIRE(prove_plan(made.plan).empty());
  LoopStep& trips = const_cast<LoopStep&>(*find_loop(made.plan));
  REQUIRE(trips.rows);
  spoil(made.plan, trips);
  const std::vector<std::string> wrong = prove_plan(made.plan);
  return wrong.empty() ? "" : wrong[0];
}

}  // namespace

TEST_CASE("loops share rows: a recurrent layer") {
  CHECK(rows_of(loop("p = MatMul(h, w) g = Gather(t, i) a = Add(p, g) s = Tanh(a) r = Add(v, s)")) == 12);
}

TEST_CASE("loops share rows: a sum inside a row, and a look-up by a row's own index") {
  CHECK(rows_of(loop("p = MatMul(h, w) e = Softmax(p) s = Relu(e) r = Add(v, p)")) == 12);
  CHECK(rows_of(loop("m = ArgMax <axis = 1, keepdims = 0> (h) g = Gather(w, m) p = MatMul(h, w) s = Add(p, g) "
                     "r = Add(v, g)")) == 12);
}

TEST_CASE("loops share rows: after a Reshape that joins them with what is inside") {
  CHECK(rows_of(loop("p = MatMul(h, w) f = Reshape(p, shape) k = MatMul(f, half) b = Reshape(k, back) s = Tanh(b) "
                     "r = Add(v, s)",
                     "float[4,4] w = random(1, 0.3), float[2,2] half = random(2, 0.3), int64[2] shape = {24, 2}, "
                     "int64[2] back = {12, 4}")) == 12);
}

TEST_CASE("loops share rows: each thread has its own of what a trip makes for all of them") {
  CHECK(rows_of(loop("j = Sub(four, i) k = Mul(j, one) g = Gather(t, k) p = MatMul(h, w) a = Add(p, g) s = Tanh(a) "
                     "r = Add(v, s)",
                     "float[4,4] w = random(1, 0.3), int64 four = {4}")) == 12);
}

TEST_CASE("loops share rows: a weight has some for each") {
  CHECK(rows_of(loop("p = MatMul(h, w) g = Add(p, own) s = Tanh(g) r = Add(v, s)",
                     "float[4,4] w = random(1, 0.3), float[12,1] own = random(3, 1.0)")) == 12);
}

TEST_CASE("counter-cases: loops that need other rows") {
  CHECK(rows_of(loop("p = MatMul(q, h) s = Tanh(p) r = Add(v, s)")) == 0);
  CHECK(rows_of(loop("p = MatMul(h, w) a = ReduceMax <keepdims = 1> (p, axes) s = Sub(p, a) r = Add(v, s)",
                     "float[4,4] w = random(1, 0.3), int64[1] axes = {0}")) == 0);
  CHECK(rows_of(loop("p = MatMul(h, w) g = Gather(p, turned) s = Tanh(g) r = Add(v, s)",
                     "float[4,4] w = random(1, 0.3), int64[12] turned = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0}")) == 0);
}

TEST_CASE("counter-cases: rows of run-time lengths, and rows that share a cache line") {
  const auto shared = [](const std::string& model, const std::string& yaml) {
    const Planned made = plan_of(model, yaml);
    CHECK(prove_plan(made.plan).empty());
    return bool(find_loop(made.plan)->rows);
  };
  const std::string head = "<ir_version: 8, opset_import: [\"\" : 20]> m ", tail = " <int64 n = {3}, bool yes = {1}> ";
  CHECK_FALSE(shared(head + "(float[8,6] x, float[T,8,6] t, float[6,6] w) => (float[8,6] y)" + tail +
                         "{ y = Loop (n, yes, x) <body = b (int64 i, bool c, float[8,6] v) => (bool d, float[8,6] r) "
                         "{ d = Identity(c) p = MatMul(v, w) g = Gather(t, i) a = Add(p, g) r = Tanh(a) }> }",
                     "weft: 1\ndims: {T: \"<=16\"}\n"));
  CHECK_FALSE(shared(head + "(float[16,8] x, float[16,16] k) => (float[16,8] y)" + tail +
                         "{ y = Loop (n, yes, x) <body = b (int64 i, bool c, float[16,8] v) => (bool d, float[16,8] r) "
                         "{ d = Identity(c) p = MatMul(k, v) r = Tanh(p) }> }",
                     "weft: 1\n"));
}

TEST_CASE("counter-case: a Reshape takes rows apart") {
  CHECK(rows_of("<ir_version: 8, opset_import: [\"\" : 20]> m (float[4,12,2] x) => (float[4,12,2] y) "
                "<int64 n = {3}, bool yes = {1}, float[2,2] w = random(1, 0.5), int64[2] flat = {48, 2}, "
                "int64[3] back = {4, 12, 2}> "
                "{ y = Loop (n, yes, x) <body = b (int64 i, bool c, float[4,12,2] v) => (bool d, float[4,12,2] r) "
                "{ d = Identity(c) f = Reshape(v, flat) p = MatMul(f, w) t = Tanh(p) r = Reshape(t, back) }> }") == 0);
}

TEST_CASE("counter-case: a matrix that no cache of a core holds is read by all threads together") {
  const std::string wide =
      "<ir_version: 8, opset_import: [\"\" : 20]> m (float[8,640] x) => (float[8,640] y) "
      "<int64 n = {2}, bool yes = {1}, float[640,640] w = random(1, 0.03)> "
      "{ y = Loop (n, yes, x) <body = b (int64 i, bool c, float[8,640] v) => (bool d, float[8,640] r) "
      "{ d = Identity(c) p = MatMul(v, w) r = Tanh(p) }> }";
  const Planned made = plan_of(wide);
  CHECK(!find_loop(made.plan)->rows);
}

TEST_CASE("the proof refuses loops whose threads would meet") {
  const auto move_rows = [](Plan&, LoopStep& trips) {
    Length& stride = trips.rows->axes[0].strides.begin()->second;
    stride = stride + 1;
  };
  CHECK(spoilt(move_rows).find("needs more") != std::string::npos);
  CHECK(spoilt([](Plan&, LoopStep& trips) {
          trips.rows->axes[0].strides.erase(trips.rows->axes[0].strides.begin());
        }) != "");
  CHECK(spoilt([](Plan&, LoopStep& trips) { trips.rows->own.clear(); }).find("have one 'i'") != std::string::npos);
  const std::string memory = spoilt([](Plan& plan, LoopStep& trips) {
    // Two buffers of the loop begin one after the other: one is moved a row into the other.
    std::vector<BufferId> held;
    for (const auto& [buffer, stride] : trips.rows->axes[0].strides) held.push_back(buffer);
    Position& position = plan.programs[0].positions[held[1].index];
    position.offset = plan.programs[0].positions[held[0].index].offset + 64;
  });
  CHECK(memory != "");
}
