// Derives facts from the stages and from a list of turns.
#include "passes/pipelining/staged_pipeline.h"

#include <algorithm>
#include <tuple>

#include "ir/base/check.h"

namespace weftc {

std::vector<StageBlocks> blocks_by_stage(const StagedPipeline& pipeline) {
  const int count = pipeline.stage.empty() ? 0 : 1 + *std::max_element(pipeline.stage.begin(), pipeline.stage.end());
  std::vector<StageBlocks> stages(as_index(count));
  for (size_t i = 0; i < pipeline.stage.size(); ++i) {
    StageBlocks& stage = stages[as_index(pipeline.stage[i])];
    const BlockKind kind = pipeline.kind[i];
    (kind == BlockKind::Forward    ? stage.forward
     : kind == BlockKind::Backward ? stage.backward
                                   : stage.weight) = static_cast<int>(i);
  }
  return stages;
}

void order_within_stages(StagedPipeline& pipeline) {
  const auto put_after = [&](int block, int earlier) {
    if (block < 0 || earlier < 0) return;
    std::vector<int>& after = pipeline.problem.blocks[as_index(block)].after;
    if (std::count(after.begin(), after.end(), earlier) == 0) after.push_back(earlier);
  };
  for (const StageBlocks& stage : blocks_by_stage(pipeline)) {
    put_after(stage.backward, stage.forward);
    put_after(stage.weight, stage.backward);
  }
}

std::vector<std::vector<int>> readers_of_stages(const StagedPipeline& pipeline) {
  const std::vector<StageBlocks> stages = blocks_by_stage(pipeline);
  std::vector<std::vector<int>> readers(stages.size());
  for (size_t reader = 0; reader < stages.size(); ++reader)
    for (const int earlier : pipeline.problem.blocks[as_index(stages[reader].forward)].after)
      readers[as_index(pipeline.stage[as_index(earlier)])].push_back(static_cast<int>(reader));
  return readers;
}

std::vector<int> stages_in_order(const StagedPipeline& pipeline) {
  const std::vector<std::vector<int>> readers = readers_of_stages(pipeline);
  std::vector<int> waits(readers.size(), 0), order;
  for (const std::vector<int>& all : readers)
    for (const int reader : all) ++waits[as_index(reader)];
  while (order.size() < readers.size()) {
    const auto next = std::find(waits.begin(), waits.end(), 0);
    if (next == waits.end()) break;
    *next = -1;
    order.push_back(static_cast<int>(next - waits.begin()));
    for (const int reader : readers[as_index(order.back())]) --waits[as_index(reader)];
  }
  return order;
}

std::vector<int> place_of(const StagedPipeline& pipeline, int stage) {
  std::vector<int> devices =
      pipeline.problem.blocks[as_index(blocks_by_stage(pipeline)[as_index(stage)].forward)].devices;
  std::sort(devices.begin(), devices.end());
  return devices;
}

PipelineProblem with_transfers(const StagedPipeline& pipeline) {
  PipelineProblem whole = pipeline.problem;
  const size_t devices = whole.limits.size();
  for (const PipelineTransfer& transfer : pipeline.transfers) {
    const int link = static_cast<int>(devices) + transfer.link;
    whole.limits.resize(std::max(whole.limits.size(), as_index(link) + 1), kNoLimit);
    std::vector<int>& after = whole.blocks[as_index(transfer.to)].after;
    after.push_back(static_cast<int>(whole.blocks.size()));
    std::erase(after, transfer.from);
    whole.blocks.push_back({{link}, transfer.time, 0, {transfer.from}});
  }
  return whole;
}

bool share_a_device(const std::vector<int>& a, const std::vector<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int device) { return std::count(b.begin(), b.end(), device) > 0; });
}

StagedPipeline with_unit_times(const StagedPipeline& pipeline) {
  StagedPipeline unit = pipeline;
  const std::vector<StageBlocks> stages = blocks_by_stage(pipeline);
  for (size_t i = 0; i < pipeline.kind.size(); ++i) {
    const bool is_whole = stages[as_index(pipeline.stage[i])].weight < 0;
    unit.problem.blocks[i].time = pipeline.kind[i] == BlockKind::Backward && is_whole ? 2 : 1;
  }
  return unit;
}

OrderTimes times_of(const PipelineProblem& problem, const std::vector<PipelineTurn>& turns, int micro_batches) {
  OrderTimes times;
  times.starts.assign(as_index(micro_batches), std::vector<int64_t>(problem.blocks.size(), -1));
  times.peaks.assign(problem.limits.size(), 0);
  std::vector<int64_t> free(problem.limits.size(), 0), held = free;
  for (const PipelineTurn& turn : turns) {
    const PipelineBlock& block = problem.blocks[as_index(turn.block)];
    std::vector<int64_t>& starts = times.starts[as_index(turn.micro_batch)];
    int64_t start = 0;
    for (const int device : block.devices) start = std::max(start, free[as_index(device)]);
    for (const int earlier : block.after) {
      WEFT_CHECK(starts[as_index(earlier)] >= 0, "a turn is listed before one that it is after");
      start = std::max(start, starts[as_index(earlier)] + problem.blocks[as_index(earlier)].time);
    }
    starts[as_index(turn.block)] = start;
    times.length = std::max(times.length, start + block.time);
    for (const int device : block.devices) {
      free[as_index(device)] = start + block.time;
      held[as_index(device)] += block.memory;
      times.peaks[as_index(device)] = std::max(times.peaks[as_index(device)], held[as_index(device)]);
    }
  }
  return times;
}

std::vector<PipelineTurn> with_transfer_turns(const StagedPipeline& pipeline, const std::vector<PipelineTurn>& turns) {
  std::vector<PipelineTurn> all;
  for (const PipelineTurn& turn : turns) {
    all.push_back(turn);
    for (size_t t = 0; t < pipeline.transfers.size(); ++t)
      if (pipeline.transfers[t].from == turn.block)
        all.push_back({static_cast<int>(pipeline.problem.blocks.size() + t), turn.micro_batch});
  }
  return all;
}

std::vector<PipelineTurn> turns_of(const PipelineProblem& problem, const PipelineStarts& starts) {
  std::vector<std::tuple<int64_t, int, size_t, int>> order;
  const std::vector<int> blocks = topological_order(problem);
  for (size_t m = 0; m < starts.size(); ++m)
    for (size_t at = 0; at < blocks.size(); ++at)
      order.push_back({starts[m][as_index(blocks[at])], static_cast<int>(m), at, blocks[at]});
  std::sort(order.begin(), order.end());
  std::vector<PipelineTurn> turns;
  for (const auto& [start, m, at, block] : order) turns.push_back({block, m});
  return turns;
}

}  // namespace weftc
