// States: which are updated in place, which are copied and why, and what the proof says of a Plan that does it wrong.
#include "ir/base/contains.h"
#include "ir/plan_walk.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// "m: in place; window: copied, WHY; ..."
std::string updates_of(const Plan& plan) {
  std::string text;
  for (const StateSlot& state : plan.states)
    text += format("{}{}: {}", text.empty() ? "" : "; ", state.input,
                   state.in_place ? "in place" : "copied, " + state.why_copied);
  return text;
}

std::string updates_of(const std::string& model, const std::string& yaml) {
  return updates_of(plan_of(model, yaml).plan);
}

std::string model_of(const std::string& ports, const std::string& nodes, const std::string& constants = "") {
  const std::string list = constants.empty() ? "" : "<" + constants + ">\n";
  return "<ir_version: 10, opset_import: [\"\" : 20]>\nm " + ports + "\n" + list + "{\n" + nodes + "\n}\n";
}

std::vector<std::string> copies_of(const Plan& plan) {
  std::vector<std::string> names;
  for (const Block& block : plan.blocks)
    for_each_step(block.steps, [&](const Step& step) {
      if (std::holds_alternative<CopyStep>(step.what)) names.push_back(step.name);
    });
  return names;
}

const Kernel& kernel_of(const Plan& plan, const std::string& step) {
  for (const Kernel& kernel : plan.kernels)
    if (contains(kernel.users, step)) return kernel;
  FAIL("no kernel of " << step);
  return plan.kernels[0];
}

/// Outputs and next states are the same in many orders of execution, and equal to what the graph evaluates to.
void check_runs(const Planned& made) {
  for (const std::string& line : prove_plan(made.plan)) CHECK_MESSAGE(false, line);
  const std::vector<Tensor> inputs = port_inputs(made.plan);
  const PlanRun first = evaluate_plan(made.plan, inputs, 0);
  REQUIRE(first.error == "");
  for (uint32_t seed = 1; seed < 10; ++seed) CHECK(same_outputs(evaluate_plan(made.plan, inputs, seed), first));
  for (size_t s = 0; s < made.plan.states.size(); ++s)
    for (size_t o = 0; o < made.plan.outputs.size(); ++o)
      if (made.plan.outputs[o].name == made.plan.states[s].output)
        CHECK(same_elements(first.outputs[o], first.states[s]));
}

const char* const kState = "weft: 1\nstate: {m: n}\n";

}  // namespace

TEST_CASE("update-states: elements by themselves are updated in place") {
  const Planned made = plan_of(model_of("(float[4,8] m, float[4,8] x) => (float[4,8] n)",
                                        "[a] a = Mul(m, x)\n[b] b = Sub(x, m)\n[n] n = Add(a, b)"),
                               kState);
  CHECK(updates_of(made.plan) == "m: in place");
  CHECK(copies_of(made.plan).empty());
  const Program& program = made.plan.programs[0];
  CHECK(program.positions[made.plan.states[0].buffer.index].offset ==
        program.positions[made.plan.states[0].next.index].offset);
  check_runs(made);
}

TEST_CASE("update-states: a view that leaves elements where they are in memory is no obstacle") {
  CHECK(updates_of(model_of("(float[4,8] m, float[32] x) => (float[4,8] n)",
                            "[r] r = Reshape(m, flat)\n[a] a = Add(r, x)\n[n] n = Reshape(a, square)",
                            "int64[1] flat = {32}, int64[2] square = {4, 8}"),
                   kState) == "m: in place");
}

TEST_CASE("update-states: other elements than those that are written are not read in place") {
  const std::string moved = "copied, 'n' reads other elements of 'm' than it writes of 'n'";
  const auto reads = [&](const std::string& nodes) {
    return updates_of(model_of("(float[4,4] m, float[4,4] x) => (float[4,4] n)", nodes,
                               "int64[1] zero = {0}, int64[1] one = {1}"),
                      kState) == "m: " + moved;
  };
  CHECK(reads("[t] t = Transpose<perm = [1, 0]>(m)\n[n] n = Add(t, x)"));
  CHECK(reads("[t] t = Transpose<perm = [1, 0]>(m)\n[a] a = Add(t, x)\n[n] n = Add(a, m)"));
  CHECK(reads("[r] r = Slice(m, zero, one, zero)\n[n] n = Add(r, x)"));
  CHECK(updates_of(model_of("(float[4,4] m, float[4,4] x) => (float[4,4] n)", "[n] n = MatMul(m, x)"), kState) ==
        "m: " + moved);
}

TEST_CASE("update-states: a row is reduced before its elements are written") {
  const std::string ports = "(float[4,8] m, float[4,8] x) => (float[4,8] n)";
  CHECK(updates_of(model_of(ports, "[n] n = Softmax<axis = -1>(m)"), kState) == "m: in place");
  // The sums of columns read all rows, in another kernel before it.
  const Planned columns = plan_of(model_of(ports,
                                           "[s] s = ReduceSum(m, first)\n[p] p = Softmax<axis = -1>(m)\n"
                                           "[n] n = Add(p, s)",
                                           "int64[1] first = {0}"),
                                  kState);
  CHECK(updates_of(columns.plan) == "m: in place");
  CHECK(columns.plan.kernels.size() > 1);
  check_runs(columns);
}

TEST_CASE("update-states: a sum of a scalar reduces no row") {
  check_runs(plan_of(model_of("(float x, float m) => (float n, float q)",
                              "[n] n = Add(m, x)\n[r] r = ReduceSum<keepdims = 0>(n)\n[q] q = Mul(r, x)"),
                     kState));
}

TEST_CASE("update-states: whoever reads the old value comes first") {
  const std::string ports = "(float[4,8] m, float[4,8] x) => (float[4,8] n, float[4,4] y)";
  const std::string y = "[t] t = Transpose<perm = [1, 0]>(m)\n[y] y = MatMul(x, t)\n", n = "[n] n = Add(m, x)\n";
  CHECK(updates_of(model_of(ports, y + n), kState) == "m: in place");
  const Planned late = plan_of(model_of(ports, n + y), kState);
  CHECK(updates_of(late.plan) == "m: copied, 'y' reads 'm' after 'n' has begun to write 'n'");
  CHECK(copies_of(late.plan) == std::vector<std::string>{"m.next"});
  check_runs(late);
}

TEST_CASE("update-states: what a loop starts from lies where its result does, and is written as early") {
  const Planned made = plan_of(model_of("(float[1,3,3] m, float[1,9,3] w, float[1,9,3] r) => (float[1,3,3] n)",
                                        "\"\", n = GRU<hidden_size = 3>(m, w, r)"),
                               kState);
  CHECK(updates_of(made.plan).find("m: copied, 'n_2' reads 'm' after 'n' has begun to write 'n'") == 0);
  check_runs(made);
}

TEST_CASE("update-states: a cache that grows is appended to, and nothing is copied") {
  const std::string model = model_of("(float[2,past,4] m, float[2,1,4] k, float[2,1,4] q) => (float[2,total,4] n)",
                                     "[s] s = Mul(k, q)\n[n] n = Concat<axis = 1>(m, s)");
  const Planned made = plan_of(model, "weft: 1\ndims: {past: \"<=8\"}\nstate: {m: n}\n");
  CHECK(updates_of(made.plan) == "m: in place");
  CHECK(copies_of(made.plan).empty());
  check_runs(made);
  size_t appends = 0;
  for (const Kernel& kernel : made.plan.kernels) appends += std::holds_alternative<Append>(kernel.strategy);
  CHECK(appends == 1);
  // A strategy that the schedule pins stays: all rows are written, in place.
  for (const char* strategy : {"elementwise", "plain-loops"}) {
    const Planned pinned = plan_of(model, "weft: 1\ndims: {past: \"<=8\"}\nstate: {m: n}\nkernels: {n: {strategy: " +
                                              std::string(strategy) + "}}\n");
    CHECK(strategy_name(kernel_of(pinned.plan, "n").strategy) == std::string(strategy));
    CHECK(pinned.plan.states[0].in_place);
    check_runs(pinned);
  }
  // New rows come first: every row of the past moves.
  const std::string front =
      model_of("(float[2,past,4] m, float[2,1,4] k) => (float[2,total,4] n)", "[n] n = Concat<axis = 1>(k, m)");
  CHECK(updates_of(front, "weft: 1\ndims: {past: \"<=8\"}\nstate: {m: n}\n") ==
        "m: copied, 'n' reads other elements of 'm' than it writes of 'n'");
}

TEST_CASE(
    "update-states: a mask has the bound of the cache that it is for, although it is made before the cache grows") {
  const Planned made =
      plan_of(model_of("(float[past,3] m, float[1,3] k) => (float[total,3] n, float[total] y, int64[1] at)",
                       "[s] s = Shape(m)\n[past] past = Slice(s, zero, one)\n[end] end = Add(past, one)\n"
                       "[mask] mask = Slice(all, zero, end)\n[at] at = Slice(numbers, past, end)\n"
                       "[n] n = Concat<axis = 0>(m, k)\n[sum] sum = ReduceSum<keepdims = 0>(n, one)\n"
                       "[y] y = Add(mask, sum)",
                       "float[20] all = random(1, 0.5), int64[5] numbers = {3, 4, 5, 6, 7}, int64[1] zero = {0}, "
                       "int64[1] one = {1}"),
              "weft: 1\ndims: {past: \"<=4\"}\nstate: {m: n}\n");
  CHECK(updates_of(made.plan) == "m: in place");
  for (const Port& port : made.plan.outputs) CHECK(port.type.shape[0].bound == (port.name == "at" ? 1 : 4));
  check_runs(made);
}

TEST_CASE("update-states: a scatter into a state writes the updates only") {
  const Planned made = plan_of(
      model_of("(float[8,4] m, int64[2,1] at, float[2,4] x) => (float[8,4] n)", "[n] n = ScatterND(m, at, x)"), kState);
  CHECK(updates_of(made.plan) == "m: in place");
  CHECK(strategy_text(kernel_of(made.plan, "n").strategy) == "scatter in place");
  check_runs(made);
  // Updates that are read from the state itself may be written already.
  CHECK(updates_of(model_of("(float[8,4] m, int64[8,1] at) => (float[8,4] n)", "[n] n = ScatterND(m, at, m)"),
                   kState) != "m: in place");
}

TEST_CASE("update-states: of two launches of one kernel only that of a state leaves what is there") {
  const Planned made =
      plan_of(model_of("(float[8,4] m, float[8,4] o, int64[2,1] at, float[2,4] x) => (float[8,4] n, float[8,4] p)",
                       "[n] n = ScatterND(m, at, x)\n[p] p = ScatterND(o, at, x)"),
              kState);
  CHECK(strategy_text(kernel_of(made.plan, "n").strategy) == "scatter in place");
  CHECK(strategy_text(kernel_of(made.plan, "p").strategy) == "scatter");
  check_runs(made);
}

TEST_CASE("update-states: in a pipeline states are copied after the last micro-batch") {
  const std::string model = model_of("(float[4,8] x, float[8,8] acc) => (float[4,8] y, float[8,8] acc_next)",
                                     "[mm] h = MatMul(x, w)\n[relu] g = Relu(h)\n[tail] y = MatMul(g, acc)\n"
                                     "[upd] acc_next = MatMul(acc, w)",
                                     "float[8,8] w = random(1, 0.5)");
  const std::string places =
      "weft: 1\nplaces: {p0: {ranks: [0], mesh: {tp: 1}}, p1: {ranks: [1], mesh: {tp: 1}}}\n"
      "state: {acc: acc_next}\n";
  const Planned made = plan_of(
      model, places +
                 "pipeline: {stages: {s0: {place: p0, nodes: [mm, relu]}, s1: {place: p1, nodes: [tail, upd]}}, "
                 "micro_batches: 1}\n");
  REQUIRE(made.plan.blocks.size() == 3);
  CHECK(made.plan.blocks[2].turn == Turn::After);
  CHECK(made.plan.blocks[2].name == "states_of_p1");
  CHECK(copies_of(made.plan) == std::vector<std::string>{"acc.next"});
  check_runs(made);
  // The state would have to travel.
  const auto torn =
      prepare(model,
              places +
                  "pipeline: {stages: {s0: {place: p0, nodes: [mm, relu, upd]}, s1: {place: p1, nodes: [tail]}}, "
                  "micro_batches: 1}\n",
              "");
  REQUIRE(torn->ok());
  CHECK(!make_plan(*torn->module, torn->target, torn->diags));
  CHECK(torn->diags.text().find("[state-places]") != std::string::npos);
}

TEST_CASE("update-states: the proof catches what is not in place and not copied") {
  const std::string model = model_of("(float[4,4] m, float[4,4] x) => (float[4,4] n)", "[n] n = MatMul(m, x)");
  const Planned made = plan_of(model, kState);
  REQUIRE(copies_of(made.plan).size() == 1);
  Plan forgotten = made.plan;
  forgotten.blocks[0].steps.pop_back();
  REQUIRE(prove_plan(forgotten).size() == 1);
  CHECK(prove_plan(forgotten)[0] == "'m' is not what the next iteration is to read on rank 0");
  Plan joined = forgotten;
  const StateSlot& state = joined.states[0];
  joined.programs[0].positions[state.next.index] = {Position::Kind::SameAs, state.buffer,
                                                    joined.programs[0].positions[state.buffer.index].offset};
  REQUIRE(!prove_plan(joined).empty());
  CHECK(prove_plan(joined)[0].find("in no order") != std::string::npos);
}
