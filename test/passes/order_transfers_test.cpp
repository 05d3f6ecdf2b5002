// Transfers between stages whose ranks exchange data in kernels: no rank overwrites what is being sent, or reads what
// has not arrived.
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// Two stages of two ranks each, with the collectives of these names in kernels over windows.
/// Without names: two stages in which the runtime exchanges data.
Planned staged(const std::string& rows, const std::string& inner, const std::string& shard,
               const std::string& collectives) {
  const std::string whole = "float[" + rows + ",16] ", up = "float[16," + inner + "] ",
                    down = "float[" + inner + ",16] ";
  const std::string model = "<ir_version: 10, opset_import: [\"\" : 20]> m (" + whole + "x) => (" + whole + "y) <" +
                            up + "u = random(1, 0.3), " + down + "v = random(2, 0.3), " + up + "w = random(3, 0.3), " +
                            down + "z = random(4, 0.3)>" + R"({
 ["up"] up = MatMul(x, u) ["act"] act = Tanh(up) ["down"] down = MatMul(act, v)
 ["again"] again = MatMul(down, w) ["bend"] bend = Tanh(again) ["last"] y = MatMul(bend, z)
})";
  const std::string schedule =
      "weft: 1\nmesh: {tp: 2}\n"
      "pipeline: {stages: {first: [up, act, down], second: rest}, micro_batches: 4, order: 1f1b}\n"
      "train:\n  loss: {mean_squared_error: {predictions: y, targets: t}}\n  optimizer: {sgd: {rate: 0.01}}\n"
      "  inputs: {t: \"float[" +
      rows + ", 16]\"}\n";
  const std::string joined = "transform: [{fuse: {ops: [\"" + collectives + "\"], into: joined, bucket: 1KiB}}]\n";
  return plan_of(model, schedule + "shard: {" + shard + "}\n" + (collectives.empty() ? "" : joined));
}

/// Waits of kernels that reach into windows for a transfer of all these ranks.
int waits_for_transfers(const Plan& plan) {
  std::set<SignalId> moved;
  int count = 0;
  for (const Block& block : plan.blocks)
    for_each_step(block.steps, [&](const Step& step) {
      const bool is_move = std::holds_alternative<SendStep>(step.what) || std::holds_alternative<RecvStep>(step.what);
      for (const Raise& raise : step.raises)
        if (is_move) moved.insert(raise.signal);
    });
  for (const Block& block : plan.blocks)
    for_each_step(block.steps, [&](const Step& step) {
      for (const Wait& wait : step.waits)
        count += !barrier_axes(plan, step).empty() && wait.in_kernel && moved.contains(wait.signal);
    });
  return count;
}

/// The Plan is right, waits for transfers of peers, and gives what the runtime's collectives give, in any order.
void check_staged(const std::string& rows, const std::string& inner, const std::string& shard,
                  const std::string& collectives) {
  const Planned made = staged(rows, inner, shard, collectives), plain = staged(rows, inner, shard, "");
  CHECK(waits_for_transfers(made.plan) > 0);
  for (const std::string& wrong : prove_plan(made.plan)) CHECK_MESSAGE(false, wrong);
  const std::vector<Tensor> inputs = port_inputs(plain.plan);
  const PlanRun wanted = evaluate_plan(plain.plan, inputs, 0);
  CHECK(wanted.error == "");
  const PlanRun first = evaluate_plan(made.plan, inputs, 0);
  REQUIRE(first.outputs.size() == wanted.outputs.size());
  for (size_t o = 0; o < first.outputs.size(); ++o)  // updated parameters among them
    for (int64_t i = 0; i < first.outputs[o].size(); ++i)
      CHECK(first.outputs[o].at(i) == doctest::Approx(wanted.outputs[o].at(i)).epsilon(1e-5));
  for (uint32_t order = 1; order < 6; ++order) CHECK(same_outputs(first, evaluate_plan(made.plan, inputs, order)));
}

}  // namespace

TEST_CASE("order-transfers: a kernel reads windows of its peers when their values have arrived") {
  check_staged("8", "32", "v: {tp: 1}, w: {tp: 1}", "*gather*");
}

TEST_CASE("order-transfers: a kernel overwrites windows of its peers when their values are sent") {
  check_staged("64", "64", "w: {tp: 1}", "*.grad.sum*");
}
