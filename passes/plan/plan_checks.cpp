// The promise of each planning step, as a condition on the Plan. The proof (passes/proof) shows more, but only at the
// end: these checks name the step that broke something.
#include "passes/plan/plan_checks.h"

#include <map>
#include <set>

#include "ir/base/text.h"
#include "ir/plan_walk.h"

namespace weftc {

namespace {

template <class Visit>
void for_each_step_of(const Plan& plan, const Visit& visit) {
  for (const Block& block : plan.blocks) for_each_step(block.steps, visit);
}

/// A launch binds each parameter of its kernel to one buffer or one weight.
void check_launch(const Plan& plan, const Step& step, const LaunchStep& launch, std::vector<std::string>& wrong) {
  const Kernel& kernel = plan.kernel(launch.kernel);
  if (launch.operands.size() != kernel.parameters.size())
    wrong.push_back(format("'{}' gives {} operands to kernel '{}', which has {} parameters", step.name,
                           launch.operands.size(), kernel.name, kernel.parameters.size()));
  for (const Operand& operand : launch.operands)
    if (bool(operand.buffer) == bool(operand.weight))
      wrong.push_back(format("an operand of '{}' is not one buffer or one weight", step.name));
}

void check_ports(const Plan& plan, const std::vector<Port>& ports, std::vector<std::string>& wrong) {
  for (const Port& port : ports)
    if (!port.buffer || port.buffer.index >= plan.buffers.size())
      wrong.push_back(format("port '{}' has no buffer", port.name));
}

}  // namespace

std::vector<std::string> check_steps(const Plan& plan) {
  std::vector<std::string> wrong;
  std::vector<int> sends(plan.transfers.size()), recvs(plan.transfers.size());
  for_each_step_of(plan, [&](const Step& step) {
    if (const auto* launch = std::get_if<LaunchStep>(&step.what)) check_launch(plan, step, *launch, wrong);
    if (const auto* send = std::get_if<SendStep>(&step.what)) ++sends[static_cast<size_t>(send->transfer)];
    if (const auto* recv = std::get_if<RecvStep>(&step.what)) ++recvs[static_cast<size_t>(recv->transfer)];
    for (const Access& access : step.accesses)
      if (!access.buffer || access.buffer.index >= plan.buffers.size())
        wrong.push_back(format("'{}' touches a buffer that does not exist", step.name));
  });
  for (size_t t = 0; t < plan.transfers.size(); ++t)
    if (sends[t] != 1 || recvs[t] != 1)
      wrong.push_back(
          format("transfer '{}' is sent {} times and received {} times", plan.transfers[t].name, sends[t], recvs[t]));
  check_ports(plan, plan.inputs, wrong);
  check_ports(plan, plan.outputs, wrong);
  return wrong;
}

std::vector<std::string> check_kernels(const Plan& plan) {
  std::vector<std::string> wrong;
  for_each_step_of(plan, [&](const Step& step) {
    const auto* launch = std::get_if<LaunchStep>(&step.what);
    for (size_t f = 0; launch && f < launch->operands.size(); ++f) {
      const BufferId buffer = launch->operands[f].buffer;
      const Parameter& parameter = plan.kernel(launch->kernel).parameters[f];
      if (buffer && !is_stored_as(plan.buffer(buffer), parameter.storage))
        wrong.push_back(format("'{}' takes '{}' as stored in another way", step.name, plan.buffer(buffer).name));
    }
  });
  return wrong;
}

std::vector<std::string> check_states(const Plan& plan) {
  std::map<std::pair<uint32_t, uint32_t>, int> copies;
  for_each_step_of(plan, [&](const Step& step) {
    if (const auto* copy = std::get_if<CopyStep>(&step.what)) ++copies[{copy->from.index, copy->to.index}];
  });
  std::vector<std::string> wrong;
  for (const StateSlot& state : plan.states) {
    const int count = state.buffer ? copies[{state.next.index, state.buffer.index}] : 0;
    if (state.buffer && count != (state.in_place ? 0 : 1))
      wrong.push_back(format("state '{}' is {} and copied {} times", state.input,
                             state.in_place ? "in place" : "not in place", count));
  }
  return wrong;
}

std::vector<std::string> check_weights(const Plan& plan) {
  std::vector<std::string> wrong;
  int64_t end = 0;
  int segment = 0;
  for (const Weight& weight : plan.weights) {
    if (weight.segment < segment || weight.segment >= static_cast<int>(plan.segments.size()))
      wrong.push_back(format("weight '{}' lies in segment {} after segment {}", weight.name, weight.segment, segment));
    else if (weight.offset < end || weight.offset % kBufferAlign)
      wrong.push_back(format("weight '{}' lies at {}, the one before ends at {}", weight.name, weight.offset, end));
    else if (weight.offset + weight.bytes > plan.segments[static_cast<size_t>(weight.segment)].end)
      wrong.push_back(format("weight '{}' lies outside its segment", weight.name));
    segment = weight.segment;
    end = weight.offset + weight.bytes;
  }
  for_each_step_of(plan, [&](const Step& step) {
    const auto* launch = std::get_if<LaunchStep>(&step.what);
    for (size_t i = 0; launch && i < launch->operands.size(); ++i)
      if (launch->operands[i].weight && launch->operands[i].weight.index >= plan.weights.size())
        wrong.push_back(format("'{}' reads a weight that does not exist", step.name));
  });
  return wrong;
}

std::vector<std::string> check_order(const Plan& plan) {
  std::vector<std::string> wrong;
  std::set<SignalId> raised;
  for_each_step_of(plan, [&](const Step& step) {
    for (const Raise& raise : step.raises) raised.insert(raise.signal);
    if (step.stream < 0 || step.stream >= static_cast<int>(plan.streams.size()))
      wrong.push_back(format("'{}' runs on a stream that does not exist", step.name));
  });
  for_each_step_of(plan, [&](const Step& step) {
    for (const Wait& wait : step.waits)
      if (!raised.contains(wait.signal)) wrong.push_back(format("'{}' waits for what nothing raises", step.name));
  });
  return wrong;
}

std::vector<std::string> check_positions(const Plan& plan) {
  std::vector<std::string> wrong;
  for (const Program& program : plan.programs) {
    std::set<BufferId> touched;
    for (const Block& block : plan.blocks)
      if (holds(plan, program, block.place))
        for_each_step(block.steps, [&](const Step& step) {
          for (const Access& access : step.accesses) touched.insert(access.buffer);
        });
    for (const BufferId id : touched) {
      const Buffer& buffer = plan.buffer(id);
      const Position position = id.index < program.positions.size() ? program.positions[id.index] : Position{};
      const int64_t own_bytes = program.own_bytes + (buffer.life == Life::Block ? program.thread_bytes : 0);
      const int64_t memory = buffer.window ? program.window_bytes : own_bytes;
      if (position.kind == Position::Kind::Absent)
        wrong.push_back(format("buffer '{}' has no position", buffer.name));
      else if (position.offset + buffer.bytes * buffer.depth > memory)
        wrong.push_back(format("buffer '{}' ends after the {} bytes of its memory", buffer.name, memory));
    }
  }
  return wrong;
}

}  // namespace weftc
