// Loop-carried values are updated in place, unless a step still needs the old value.
#include "ir/plan_walk.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// A loop of five trips over two values v and w, whose next ones the body calls r and s.
std::string loop(const std::string& body) {
  return "<ir_version: 8, opset_import: [\"\" : 20]> m (float[4,4] x, float[4,4] z) => (float[4,4] y, float[4,4] u) "
         "<int64 n = {5}, bool yes = {1}> { y, u = Loop (n, yes, x, z) <body = b (int64 i, bool c, float[4,4] v, "
         "float[4,4] w) => (bool d, float[4,4] r, float[4,4] s) { d = Identity(c) " +
         body + " }> }";
}

/// Copies of elements that each trip makes.
int copies_of(const std::string& body) {
  const Planned made = plan_of(loop(body));
  CHECK(prove_plan(made.plan).empty());
  int copies = 0;
  for (const Block& block : made.plan.blocks)
    for (const Step& step : block.steps)
      if (const auto* trips = std::get_if<LoopStep>(&step.what))
        for_each_step(trips->body, [&](const Step& inner) {
          const auto* copy = std::get_if<CopyStep>(&inner.what);
          copies += copy && !copy->in_place;
        });
  return copies;
}

}  // namespace

TEST_CASE("what a loop carries is updated where it lies") {
  // The product reads all of w; the sum after it reads v element by element.
  CHECK(copies_of("p = MatMul(w, w) q = Relu(p) t = Transpose(q) r = Add(v, t) s = Neg(w)") == 0);
}

TEST_CASE("counter-case: the kernel that makes a value reads other elements of the old one") {
  CHECK(copies_of("r = MatMul(v, w) s = Neg(w)") == 1);
}

TEST_CASE("counter-case: a later step reads the old value") { CHECK(copies_of("r = Neg(v) s = MatMul(v, w)") == 2); }

TEST_CASE("counter-case: two values change places") {
  // One of them can be made where the other lay, because it was read by then.
  CHECK(copies_of("r = Transpose(w) s = Transpose(v)") == 1);
}
