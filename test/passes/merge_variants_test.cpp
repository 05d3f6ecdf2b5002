// Data shared by variants of an executable: weights with equal storage, the offsets of states, memory.
#include "passes/plan/merge_variants.h"

#include "passes/plan/plan_checks.h"
#include "passes/proof/prove_plan.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

constexpr const char* kRunning = R"(<ir_version: 10, opset_import: ["" : 20]>
running (float[n,32] x, float[past,32] kept) => (float[n,16] y, float[rows,32] next)
<float[32,64] w = random(1, 0.5), float[64,16] v = random(2, 0.5)> {
  [first] h = MatMul(x, w)
  [second] y = MatMul(h, v)
  [grow] next = Concat <axis = 0> (kept, x)
})";

std::string yaml_of(int64_t n, const std::string& more = "") {
  return format("weft: 1\nmesh: {tp: 2}\nshard: {w: {tp: 1}}\nstate: {kept: next}\ndims: {n: {}, past: \"<=8\"}\n{}", n,
                more);
}

const Weight& weight_named(const Plan& plan, const std::string& name) {
  return *std::find_if(plan.weights.begin(), plan.weights.end(), [&](const Weight& w) { return w.name == name; });
}

}  // namespace

TEST_CASE("variants: weights that are stored alike lie at one place, and the plans stay right") {
  Planned one = plan_of(kRunning, yaml_of(1)), four = plan_of(kRunning, yaml_of(4));
  const int64_t alone = one.plan.segments.back().end, own = four.plan.programs[0].own_bytes;
  REQUIRE(one.plan.programs[0].own_bytes < own);
  const std::vector<VariantPlan> variants = {{"n=1", &one.plan}, {"n=4", &four.plan}};
  Diags diags;
  merge_variants(variants, diags);
  CHECK_MESSAGE(diags.ok(), diags.text());
  for (const VariantPlan& variant : variants) {
    const Plan& plan = *variant.plan;
    CHECK(plan.segments.back().end == alone);
    CHECK(plan.programs[0].own_bytes == own);
    CHECK(check_weights(plan).empty());
    CHECK(prove_plan(plan).empty());
    for (const char* name : {"w", "v"}) CHECK(weight_named(plan, name).offset == weight_named(one.plan, name).offset);
  }
  CHECK(doubled_weight_bytes(variants) == 0);
}

TEST_CASE("variants: what threads have of their own lies after the memory of the largest variant") {
  const std::string model =
      "<ir_version: 10, opset_import: [\"\" : 20]> m (float[8,128,4] q, float[8,4,256] k, float[8,256,4] v, float[n] "
      "z) => "
      "(float[8,128,4] y, float[n] r) { s = MatMul(q, k) p = Softmax(s) y = MatMul(p, v) r = Relu(z) }";
  Planned small = plan_of(model, "weft: 1\ndims: {n: 4}\n"), large = plan_of(model, "weft: 1\ndims: {n: 4096}\n");
  const int64_t thread = small.plan.programs[0].thread_bytes;
  REQUIRE(thread > 0);
  REQUIRE(small.plan.programs[0].own_bytes < large.plan.programs[0].own_bytes);
  const std::vector<VariantPlan> variants = {{"n=4", &small.plan}, {"n=4096", &large.plan}};
  Diags diags;
  merge_variants(variants, diags);
  CHECK_MESSAGE(diags.ok(), diags.text());
  for (const VariantPlan& variant : variants) {
    CHECK(variant.plan->programs[0].thread_bytes == thread);
    CHECK(prove_plan(*variant.plan).empty());
  }
}

TEST_CASE("variants: a weight that they store in two ways is there twice, which is counted") {
  Planned one = plan_of(kRunning, yaml_of(1));
  Planned four = plan_of(kRunning, yaml_of(4, "kernels: {second: {strategy: plain-loops}}\n"));
  const int64_t bytes = weight_named(four.plan, "v").bytes;
  REQUIRE(!(weight_named(one.plan, "v").storage == weight_named(four.plan, "v").storage));
  const std::vector<VariantPlan> variants = {{"n=1", &one.plan}, {"n=4", &four.plan}};
  Diags diags;
  merge_variants(variants, diags);
  CHECK_MESSAGE(diags.ok(), diags.text());
  CHECK(weight_named(one.plan, "w").offset == weight_named(four.plan, "w").offset);
  CHECK(weight_named(one.plan, "v").offset != weight_named(four.plan, "v").offset);
  CHECK(doubled_weight_bytes(variants) == 2 * bytes);  // a slice for each rank
  for (const VariantPlan& variant : variants) {
    CHECK(check_weights(*variant.plan).empty());
    CHECK(prove_plan(*variant.plan).empty());
  }
}
