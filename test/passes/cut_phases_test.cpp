// Forward, backward and update of a training: an evaluation finds all that it reads, and changes no state.
#include <set>

#include "ir/plan_walk.h"
#include "test/passes/classifier.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

constexpr const char* kPhasedTraining =
    "train:\n  loss: {cross_entropy: {scores: y, labels: labels}}\n  optimizer: {momentum: {rate: 0.1}}\n"
    "  metrics: {accuracy: {accuracy: {scores: y, labels: labels}}}\n  clip: {norm: 1}\n";

std::vector<std::string> blocks_of(const Plan& plan) {
  std::vector<std::string> names;
  for (const Block& block : plan.blocks) names.push_back(block.name);
  return names;
}

/// The steps that an evaluation runs.
std::vector<const Step*> evaluated_steps(const Plan& plan) {
  std::vector<const Step*> steps;
  const auto add = [&](const Step& step) { steps.push_back(&step); };
  for (const Step& step : plan.blocks.front().steps) {
    const auto* loop = std::get_if<ForStep>(&step.what);
    if (!loop || loop->forward == 0) {
      add(step);
      for (const auto* body : bodies_of(step)) for_each_step(*body, add);
      continue;
    }
    for (size_t s = 0; s < loop->forward; ++s) add(loop->body[s]);
  }
  return steps;
}

/// Everything that an evaluation reads is made by it, or exists before it.
void check_evaluation(const Plan& plan) {
  std::set<uint32_t> there, states;
  for (const Port& port : plan.inputs) there.insert(port.buffer.index);
  for (const StateSlot& state : plan.states) {
    states.insert(state.buffer.index);
    if (state.in_place) states.insert(state.next.index);
  }
  for (const Step* step : evaluated_steps(plan)) {
    for (const Access& access : step->accesses)
      if (!access.write)
        CHECK_MESSAGE(there.contains(access.buffer.index), step->name, plan.buffer(access.buffer).name);
    for (const Access& access : step->accesses)
      if (access.write) {
        there.insert(access.buffer.index);
        CHECK_MESSAGE(!states.contains(access.buffer.index), step->name, plan.buffer(access.buffer).name);
      }
  }
  for (const Port& port : plan.outputs)
    if (port.name == plan.training->loss || port.name == "accuracy") CHECK(there.contains(port.buffer.index));
}

}  // namespace

TEST_CASE("three blocks, the first of which is an evaluation") {
  for (const std::string shard : {"", "mesh: {dp: 2}\nshard: {x: {dp: 0}, labels: {dp: 0}}\n"}) {
    const Planned made = plan_of(kClassifier, "weft: 1\n" + shard + kPhasedTraining);
    CHECK(blocks_of(made.plan) == std::vector<std::string>{"forward", "backward", "update"});
    check_evaluation(made.plan);
    check_orders(made, 5);
  }
}

TEST_CASE("micro-batches: the loop of an evaluation ends after what is forward") {
  for (const std::string shard : {"", "mesh: {dp: 2}\nshard: {x: {dp: 0}, labels: {dp: 0}}\n"}) {
    const Planned made = plan_of(kClassifier, "weft: 1\n" + shard + kPhasedTraining + "  accumulate: 4\n");
    CHECK(blocks_of(made.plan) == std::vector<std::string>{"forward_and_backward", "update"});
    check_evaluation(made.plan);
    check_orders(made, 5);
  }
}

TEST_CASE("a model that does not train is one block") {
  CHECK(blocks_of(plan_of(kClassifier).plan) == std::vector<std::string>{"run"});
}
