// Steps are numbered in the order of the blocks. A use inside a loop counts as the whole loop for a buffer that
// outlives the loop, since the next trip comes to the same steps again.
#include "passes/plan/live_ranges.h"

#include <algorithm>
#include <set>

#include "ir/base/contains.h"
#include "ir/plan_walk.h"
#include "passes/plan/signal_writer.h"

namespace weftc {

LiveRanges::LiveRanges(const Plan& plan)
    : plan_(plan), uses_(plan.buffers.size()), is_port_(plan.buffers.size()), port_ranges_(plan.buffers.size()) {
  for (const auto* ports : {&plan.inputs, &plan.outputs})
    for (const Port& port : *ports) is_port_[port.buffer.index] = true;
  for (const LengthBuffer& length : plan.lengths) is_port_[length.buffer.index] = true;
  names_.push_back("input");
  blocks_.push_back(plan.blocks.size());
  for (const Turn turn : {Turn::Before, Turn::MicroBatch, Turn::After}) {
    if (turn == Turn::After) again_.last = static_cast<int>(names_.size()) - 1;
    if (turn == Turn::MicroBatch) again_.first = static_cast<int>(names_.size());
    for (block_ = 0; block_ < plan.blocks.size(); ++block_)
      if (plan.blocks[block_].turn == turn) walk(plan.blocks[block_].steps, -1);
  }
  names_.push_back("output");
  blocks_.push_back(plan.blocks.size());
  if (plan.transfers.empty()) join_streams();
  for (const Port& port : plan.inputs) port_ranges_[port.buffer.index].add(0, end());
  for (const Port& port : plan.outputs) port_ranges_[port.buffer.index].add(end(), end());
  for (const LengthBuffer& length : plan.lengths)
    port_ranges_[length.buffer.index].add(length.is_made ? end() : 0, end());
}

LiveRange LiveRanges::of(size_t buffer, const std::vector<const Step*>& except) const {
  LiveRange range;
  std::vector<Use> uses;
  for (const Use& use : uses_[buffer])
    if (!contains(except, use.step)) uses.push_back(use);
  if (uses.empty()) return range;
  if (plan_.has_stages) add_blocks(buffer, uses, range);
  for (const Use& use : uses)
    if (const auto join = joins_.find(use.at); join != joins_.end()) range.add(use.at, join->second);
  int home = is_port_[buffer] ? -1 : uses[0].nest;
  for (const Use& use : uses) home = common(home, use.nest);
  for (const Use& use : uses) {
    const int child = child_of(home, use.nest);
    if (child >= 0)
      range.add(nests_[child].range);
    else
      range.add(use.at, use.at);
  }
  for (int nest = home; nest >= 0; nest = nests_[nest].parent)
    if (nests_[nest].overlaps) range.add(nests_[nest].range);
  return range;
}

bool LiveRanges::runs_again(const Use& use) const { return plan_.blocks[use.block].turn == Turn::MicroBatch; }

/// Blocks of micro-batches run repeatedly, in an order of their own. A buffer that such a block shares with another
/// block lives through all of them, and so does one to which every micro-batch writes a part. Transfers may overlap
/// with everything.
void LiveRanges::add_blocks(size_t buffer, const std::vector<Use>& uses, LiveRange& range) const {
  const Life life = plan_.buffers[buffer].life;
  const bool is_whole = plan_.micro_batches > 1 && (life == Life::Run || life == Life::State);
  const bool is_shared = std::ranges::any_of(uses, [&](const Use& use) { return use.block != uses[0].block; });
  for (const Use& use : uses) {
    if (use.stream) range.add(1, end() - 1);
    if (runs_again(use) && (is_whole || is_shared)) range.add(again_);
  }
}

LiveRange LiveRanges::in_memory(size_t buffer) const {
  LiveRange range = of(buffer);
  range.add(port_ranges_[buffer]);
  const bool is_made_again =
      is_port_[buffer] && std::ranges::any_of(uses_[buffer], [&](const Use& use) { return runs_again(use); });
  if (plan_.has_stages && is_made_again) range.add(again_);
  return range;
}

void LiveRanges::walk(const std::vector<Step>& steps, int nest) {
  for (const Step& step : steps) {
    const int at = static_cast<int>(names_.size());
    names_.push_back(step.name);
    blocks_.push_back(block_);
    if (nest < 0) outer_.emplace_back(at, &step);
    for (const Access& access : step.accesses)
      uses_[access.buffer.index].push_back({at, nest, block_, step.stream, &step});
    const auto bodies = bodies_of(step);
    if (bodies.empty()) continue;
    const int own = static_cast<int>(nests_.size());
    nests_.push_back({nest, {}, false});
    if (std::holds_alternative<LoopStep>(step.what))  // its condition and count are read again before each trip
      for (const Access& access : step.accesses)
        uses_[access.buffer.index].push_back({at, own, block_, step.stream, &step});
    std::set<int> streams;
    bool meets_ranks = false;
    for (const auto* body : bodies) {
      walk(*body, own);
      for (const Step& inner : *body) {
        streams.insert(inner.stream);
        meets_ranks |= !barrier_axes(plan_, inner).empty();
      }
    }
    nests_[own].range.add(at, static_cast<int>(names_.size()) - 1);
    const auto* loop = std::get_if<LoopStep>(&step.what);
    nests_[own].overlaps = streams.size() > 1 || meets_ranks || (loop && loop->rows);
  }
}

/// A step that runs beside others may be in progress until another step waits for it.
void LiveRanges::join_streams() {
  std::vector<const Step*> steps;
  for (const auto& [at, step] : outer_) steps.push_back(step);
  const std::vector<size_t> joins = joins_of(steps);
  for (size_t s = 0; s < steps.size(); ++s)
    if (runs_beside(*steps[s])) joins_[outer_[s].first] = joins[s] < steps.size() ? outer_[joins[s]].first : end() - 1;
}

/// The innermost loop nest that holds both; -1: no nest does.
int LiveRanges::common(int a, int b) const {
  std::set<int> above{-1};
  for (; a >= 0; a = nests_[a].parent) above.insert(a);
  while (!above.contains(b)) b = nests_[b].parent;
  return b;
}

/// The nest right inside `home` that holds `nest`; -1 if they are equal.
int LiveRanges::child_of(int home, int nest) const {
  int child = -1;
  for (; nest != home; nest = nests_[nest].parent) child = nest;
  return child;
}

}  // namespace weftc
