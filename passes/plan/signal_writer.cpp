// Adds signals and streams to a Plan, each once, and finds the steps that run last or first on a stream.
#include "passes/plan/signal_writer.h"

#include <algorithm>

#include "ir/base/contains.h"

namespace weftc {

int SignalWriter::stream(const std::string& name) {
  const auto at = std::find(plan_.streams.begin(), plan_.streams.end(), name);
  if (at != plan_.streams.end()) return static_cast<int>(at - plan_.streams.begin());
  plan_.streams.push_back(name);
  return static_cast<int>(plan_.streams.size()) - 1;
}

SignalId SignalWriter::done_signal(Step& step, const std::vector<int>& axes, int count) {
  const PlaceId place = step.accesses.empty() ? PlaceId{0} : plan_.buffer(step.accesses[0].buffer).place;
  return done_signal(step, place, axes, count);
}

SignalId SignalWriter::done_signal(Step& step, PlaceId place, const std::vector<int>& axes, int count) {
  for (const Raise& raise : step.raises)
    if (plan_.signals[raise.signal.index].axes == axes) return raise.signal;
  plan_.signals.push_back({step.name + (axes.empty() ? ".done" : ".ready"), count * plan_.micro_batches, place, axes});
  const SignalId id{static_cast<uint32_t>(plan_.signals.size() - 1)};
  step.raises.push_back({id, count > 1 ? Per::Chunk : once(), false});
  return id;
}

Step* last_leaf(std::vector<Step>& steps, size_t at, int stream, int& count) {
  while (at-- > 0) {
    Step& step = steps[at];
    auto* loop = std::get_if<ForStep>(&step.what);
    if (!loop && step.stream == stream) return &step;
    if (!loop) continue;
    int inner = loop->trips;
    if (Step* found = last_leaf(loop->body, loop->body.size(), stream, inner)) {
      count = inner;
      return found;
    }
  }
  return nullptr;
}

Step* last_leaf_before(Plan& plan, const Block& block, int stream, int& count) {
  if (block.turn != Turn::After) return nullptr;
  const auto is_own = [&](const OrderedBlock& entry) {
    return &plan.blocks[static_cast<size_t>(entry.block)] == &block;
  };
  const auto own = std::ranges::find_if(plan.order, is_own);
  for (auto at = own; at-- != plan.order.begin();) {
    Block& before = plan.blocks[static_cast<size_t>(at->block)];
    if (before.place != block.place) continue;
    if (at->micro_batch != own->micro_batch) return nullptr;
    if (block.phase == Phase::Forward && before.phase != Phase::Forward) return nullptr;  // an evaluation leaves it out
    if (Step* found = last_leaf(before.steps, before.steps.size(), stream, count)) return found;
  }
  return nullptr;
}

Step& first_leaf(Step& step) {
  auto* loop = std::get_if<ForStep>(&step.what);
  return !loop || loop->body.empty() ? step : first_leaf(loop->body.front());
}

std::vector<int> meeting_axes(const Plan& plan, const Step& step) {
  const auto* what = std::get_if<CollectiveStep>(&step.what);
  return what && what->kind != OpKind::ShardSlice ? what->axes : barrier_axes(plan, step);
}

bool is_meeting_of(const Plan& plan, const Step& step, const std::vector<int>& axes) {
  const std::vector<int> met = meeting_axes(plan, step);
  return std::ranges::all_of(axes, [&](int axis) { return contains(met, axis); });
}

bool meets_ranks(const Plan& plan, const Step& step) { return !meeting_axes(plan, step).empty(); }

bool conflict(const Access& a, const Access& b) { return a.buffer == b.buffer && (a.write || b.write); }

bool conflict(const Step& a, const Step& b, BufferId* buffer) {
  for (const Access& x : a.accesses)
    for (const Access& y : b.accesses) {
      if (!conflict(x, y)) continue;
      if (buffer) *buffer = x.buffer;
      return true;
    }
  return false;
}

}  // namespace weftc
