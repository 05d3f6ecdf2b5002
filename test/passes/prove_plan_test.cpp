// The proof: silent on right Plans, and each mutation is caught, or changes no bit in 20 orders (60 in `full`).
#include "passes/proof/prove_plan.h"

#include <algorithm>
#include <future>
#include <thread>

#include "test/effort.h"
#include "test/fixtures.h"
#include "test/passes/mutate_plan.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// How many orders of execution a mutated Plan that the proof lets pass is tried in.
uint32_t orders() { return is_full() ? 60 : 20; }

/// Empty, or how the first order of every `step`-th from `first` on differs.
std::string difference(const Plan& mutated, const std::vector<Tensor>& inputs, const PlanRun& right, uint32_t first,
                       uint32_t step) {
  for (uint32_t seed = first; seed < orders(); seed += step) {
    const PlanRun run = evaluate_plan(mutated, inputs, seed);
    if (!same_outputs(run, right)) return run.error.empty() ? "other results" : run.error;
  }
  return "";
}

/// Empty if no output bit differs in any order.
std::string difference(const Plan& mutated, const std::vector<Tensor>& inputs, const PlanRun& right) {
  const uint32_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::future<std::string>> parts;
  for (uint32_t t = 0; t < threads; ++t)
    parts.push_back(std::async(std::launch::async, [&, t] { return difference(mutated, inputs, right, t, threads); }));
  std::string why;
  for (std::future<std::string>& part : parts)
    if (std::string found = part.get(); why.empty()) why = std::move(found);
  return why;
}

int count_steps(const Plan& plan) {
  int steps = 0;
  for (const Block& block : plan.blocks) for_each_step(block.steps, [&](const Step&) { ++steps; });
  return steps;
}

/// Which mutations of a Plan are tried: every `stride`th from the number `first` on.
struct Sites {
  size_t first = 0, stride = 1;
};

/// A part of all sites, another one for each fixture: the first mutations of all Plans are much alike.
Sites sites_of(const std::string& name) {
  if (is_full()) return {};
  constexpr uint32_t kStride = 40;
  return {turn_of(name, kStride), kStride};
}

/// Each of these mutations of the Plan is caught, or harmless; how many are caught.
int check_mutations(const std::string& model, const std::string& yaml, Sites sites = {}) {
  const Planned made = plan_of(model, yaml);
  const std::vector<std::string> wrong = prove_plan(made.plan);
  for (const std::string& line : wrong) CHECK_MESSAGE(false, line);
  const std::vector<Tensor> inputs = port_inputs(made.plan);
  const PlanRun right = evaluate_plan(made.plan, inputs, 0);
  INFO(right.error);
  REQUIRE(right.error.empty());
  int caught = 0;
  std::string equivalent;
  const std::vector<Mutation> mutations = mutations_of(made.plan);
  for (size_t m = sites.first; m < mutations.size(); m += sites.stride) {
    const Mutation& mutation = mutations[m];
    Plan mutated = made.plan;
    mutation.apply(mutated);
    if (!prove_plan(mutated).empty()) {
      ++caught;
      continue;
    }
    const std::string why = difference(mutated, inputs, right);
    CHECK_MESSAGE(why.empty(), mutation.text << " is not caught: " << why);
    equivalent += "\n  " + mutation.text;
  }
  MESSAGE("caught " << caught << ", equivalent:" << equivalent);
  return caught;
}

/// An If makes what the Scan carries, so that the copy to the next trip is all that brings it there; the second state
/// is only written.
const char* const kScanOfIf = R"(<ir_version: 8, opset_import: ["" : 20]>
scan_of_if (float[4,6] s0, float[4,6] u0, float[3,4,6] a, float[6,6] w, bool up) => (float[4,6] s, float[4,6] u)
{
  s, u = Scan <num_scan_inputs = 1, body = step (float[4,6] s_in, float[4,6] u_in, float[4,6] a_t)
    => (float[4,6] s_out, float[4,6] u_out)
  {
    s_out = If (up) <
      then_branch = yes () => (float[4,6] m) { m = MatMul(s_in, w) },
      else_branch = no () => (float[4,6] n) { n = Sub(s_in, a_t) }>
    u_out = If (up) <
      then_branch = keep () => (float[4,6] k) { k = Abs(a_t) },
      else_branch = turn () => (float[4,6] t) { t = Neg(a_t) }>
  }> (s0, u0, a)
})";

/// The second value is what the first one was a trip before.
const char* const kFibonacci = R"(<ir_version: 8, opset_import: ["" : 20]>
fibonacci (float[4,4] a0, float[4,4] b0, float[4,4] w) => (float[4,4] a, float[4,4] b)
<int64 trips = {4}>
{
  always = Constant<value = bool {1}>()
  a, b = Loop (trips, always, a0, b0) <body = trip (int64 i, bool go, float[4,4] a_in, float[4,4] b_in)
    => (bool on, float[4,4] a_out, float[4,4] b_out)
  {
    on = Identity(go)
    turned = MatMul(b_in, w)
    a_out = Add(a_in, turned)
    b_out = Identity(a_in)
  }>
})";

}  // namespace

TEST_CASE("mutations: all-reduce on one stream") { CHECK(check_mutations(kMlp, kTp2) >= 15); }
TEST_CASE("mutations: a kernel over the peer table") { CHECK(check_mutations(kMlp, kTp2Fused) >= 14); }
TEST_CASE("mutations: chunks of a fused kernel on two streams") { CHECK(check_mutations(kMlp, kTp2Overlap) >= 20); }
TEST_CASE("mutations: chunks of an all-reduce on two streams") { CHECK(check_mutations(kMlp, kTp2Streams) >= 20); }
TEST_CASE("mutations: two stages with a transfer") { CHECK(check_mutations(kMlp, kTwoStages) >= 30); }

TEST_CASE("mutations: what an If makes goes to the next trip of a Scan") { CHECK(check_mutations(kScanOfIf, "") >= 8); }
TEST_CASE("mutations: a Loop carries what it carried before in another place") {
  CHECK(check_mutations(kFibonacci, "") >= 4);
}

TEST_CASE("prove_plan: every copy to the next trip is missed") {
  const Planned made = plan_of(kScanOfIf);
  int copies = 0;
  for (const Mutation& mutation : mutations_of(made.plan)) {
    if (!mutation.text.starts_with("missing step") || mutation.text.find(".next'") == std::string::npos) continue;
    Plan mutated = made.plan;
    mutation.apply(mutated);
    CHECK_MESSAGE(!prove_plan(mutated).empty(), mutation.text);
    ++copies;
  }
  CHECK(copies == 2);
}

TEST_CASE("mutations of every fixture, in `full` at every site") {
  int caught = 0;
  for (const std::string& name : fixture_names(false)) {
    CAPTURE(name);
    Fixture fixture = read_fixture(name);
    // Running a plan with 50257 rows in 60 orders takes minutes; 503 is as ragged on four ranks. A device's long rows
    // are no longer for the proof.
    for (const auto& [large, small] :
         {std::pair{"50257", "503"}, {"13000", "13"}, {"2048", "24"}, {"2000", "23"}, {"1900", "22"}, {"1800", "21"}})
      for (size_t at; (at = fixture.model.find(large)) != std::string::npos;)
        fixture.model.replace(at, std::string(large).size(), small);
    MESSAGE(name);
    // Hundreds of steps are there for their operators, and one order of many like them takes as long as all others.
    const int most_steps = is_full() ? 100 : 60;
    if (const int steps = count_steps(plan_of(fixture.model, fixture.yaml).plan); steps > most_steps) {
      MESSAGE("left out: " << steps << " steps");
      continue;
    }
    caught += check_mutations(fixture.model, fixture.yaml, sites_of(name));
  }
  CHECK(caught > (is_full() ? 20000 : 400));
}
