// A length that data decides, from its NameLength to the Plan: values with this length are computed after it, in
// another kernel.
#include <doctest/doctest.h>

#include "ir/evaluate/evaluate.h"
#include "ir/text/text_form.h"
#include "passes/passes.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {
constexpr const char* kFound = R"(module "m" file "m.onnx" seed 0
place @all [0] {}
length found <= 4
graph {
  %x = Input() : f32[4] @all
  %c = Input() : i64[] @all
  %k = Abs(%c) : i64[] @all
  %n = NameLength(%k) {name = "found"} : i64[] @all
  %at = Iota() {axis = 0, dtype = 7, shape = [4], start = 0.0, step = 1.0} : i64[found<=4] @all
  %y = Gather(%x, %at) {axis = 0} : f32[found<=4] @all
  %z = Exp(%y) : f32[found<=4] @all
  %twice = LengthOf() {length = "found * 2"} : i64[] @all
  return %z, %twice
}
)";

struct Found {
  std::optional<Module> module;
  Plan plan;
};

Found found() {
  Diags diags;
  Found made{parse_module("m.weft", kFound, diags), {}};
  INFO(diags.text());
  REQUIRE(made.module);
  REQUIRE(verify(*made.module, Form::Laid).empty());
  const Schedule schedule;
  const Target target;
  lay_in_memory(*made.module, {schedule, target, diags});
  fuse_regions(*made.module, {schedule, target, diags});
  std::optional<Plan> plan = make_plan(*made.module, target, diags);
  INFO(diags.text());
  REQUIRE(plan);
  made.plan = std::move(*plan);
  return made;
}

const std::vector<Tensor> kInputs = {seeded_tensor({DType::F32, shape_of({4}), {}}, 1), Tensor::scalar(DType::I64, -3)};
}  // namespace

TEST_CASE("lengths that data decides: a kernel makes one, and others are given it") {
  const Found made = found();
  REQUIRE(made.plan.lengths.size() == 1);
  CHECK(made.plan.lengths[0].name == "found");
  CHECK(made.plan.lengths[0].is_made);
  CHECK(prove_plan(made.plan).empty());
  const PlanRun run = evaluate_plan(made.plan, kInputs, 1);
  CHECK(run.error == "");
  const EvalResult wanted = evaluate(*made.module, kInputs);
  REQUIRE(wanted.error == "");
  CHECK(run.outputs[0].dims == Dims{3});
  CHECK(relative_error(run.outputs[0], wanted.outputs[0]) < 1e-6);
  CHECK(run.outputs[1].int_at(0) == 6);
}

TEST_CASE("lengths that data decides: the proof misses neither the step that makes one nor its place") {
  const Found made = found();
  std::vector<Step> steps = made.plan.blocks[0].steps;
  REQUIRE(steps.size() > 1);
  CHECK(steps[0].name == "n");
  Plan without = made.plan;
  without.blocks[0].steps.erase(without.blocks[0].steps.begin());
  CHECK_FALSE(prove_plan(without).empty());
  Plan turned = made.plan;
  std::swap(turned.blocks[0].steps[0], turned.blocks[0].steps[1]);
  CHECK_FALSE(prove_plan(turned).empty());
}
