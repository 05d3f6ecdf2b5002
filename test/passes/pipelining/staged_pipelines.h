// Pipelines of stages for tests, their orders as text, and a check of orders that shares nothing with what makes them.
#pragma once
#include <algorithm>
#include <random>
#include <string>

#include "passes/pipelining/orders.h"

namespace weftc {

enum class TestPasses { Forward, Whole, Split };

struct TestStage {
  std::vector<int> devices;
  std::vector<int> reads;
  int64_t memory = 2;  // that a forward pass takes; even
};

/// Blocks 0, 1, ... are the forward passes by stage; then the backward passes, then the parts for weights.
inline StagedPipeline staged(const std::vector<TestStage>& stages, TestPasses passes) {
  StagedPipeline pipeline;
  const auto count = static_cast<int>(stages.size());
  int devices = 0;
  const auto add = [&](int stage, BlockKind kind, int64_t time, int64_t memory, std::vector<int> after) {
    pipeline.problem.blocks.push_back({stages[static_cast<size_t>(stage)].devices, time, memory, std::move(after)});
    pipeline.stage.push_back(stage);
    pipeline.kind.push_back(kind);
  };
  for (int s = 0; s < count; ++s) {
    const TestStage& stage = stages[static_cast<size_t>(s)];
    add(s, BlockKind::Forward, 1, passes == TestPasses::Forward ? 0 : stage.memory, stage.reads);
    for (const int device : stage.devices) devices = std::max(devices, device + 1);
  }
  const bool is_split = passes == TestPasses::Split;
  for (int s = 0; passes != TestPasses::Forward && s < count; ++s) {
    std::vector<int> after = {s};
    for (int reader = 0; reader < count; ++reader) {
      const std::vector<int>& reads = stages[static_cast<size_t>(reader)].reads;
      if (std::count(reads.begin(), reads.end(), s) > 0) after.push_back(count + reader);
    }
    const int64_t memory = stages[static_cast<size_t>(s)].memory;
    add(s, BlockKind::Backward, is_split ? 1 : 2, is_split ? -memory / 2 : -memory, std::move(after));
  }
  for (int s = 0; is_split && s < count; ++s)
    add(s, BlockKind::Weight, 1, -stages[static_cast<size_t>(s)].memory / 2, {count + s});
  pipeline.problem.limits.assign(static_cast<size_t>(devices), kNoLimit);
  return pipeline;
}

/// Stages in a row, each on one device.
inline std::vector<TestStage> row_of_stages(const std::vector<int>& devices) {
  std::vector<TestStage> stages;
  for (const int device : devices) {
    stages.push_back({{device}, {}});
    if (stages.size() > 1) stages.back().reads = {static_cast<int>(stages.size()) - 2};
  }
  return stages;
}

/// `times` times 0, 1, ..., p - 1.
inline std::vector<int> rounds(int p, int times) {
  std::vector<int> devices;
  for (int i = 0; i < p * times; ++i) devices.push_back(i % p);
  return devices;
}

/// 0, 1, ..., p - 1, p - 1, ..., 0.
inline std::vector<int> there_and_back(int p) {
  std::vector<int> devices = rounds(p, 1);
  for (int i = p - 1; i >= 0; --i) devices.push_back(i);
  return devices;
}

/// A chain through 0, 1, ..., p - 1 and one the opposite way.
inline std::vector<TestStage> opposite_chains(int p) {
  std::vector<TestStage> stages = row_of_stages(there_and_back(p));
  stages[static_cast<size_t>(p)].reads.clear();
  return stages;
}

struct NamedStages {
  std::string name;
  std::vector<TestStage> stages;
};

/// Stages that use every device, without memory.
inline TestStage shared_stage(int devices, std::vector<int> reads) {
  TestStage stage = {{}, std::move(reads), 0};
  for (int device = 0; device < devices; ++device) stage.devices.push_back(device);
  return stage;
}

/// A row of stages; -1 is one on all of p devices.
inline std::vector<TestStage> row_with_shared(int p, const std::vector<int>& devices) {
  std::vector<TestStage> stages = row_of_stages(devices);
  for (size_t i = 0; i < devices.size(); ++i)
    if (devices[i] < 0) stages[i] = shared_stage(p, stages[i].reads);
  return stages;
}

/// The placements of the notes, for p devices: what Tessel calls M, NN, MLLM, K, X.
inline std::vector<NamedStages> placements(int p) {
  std::vector<int> m = {-1}, nn = {-1}, mllm = {-1};
  for (int i = 0; i < p; ++i) {
    if (i == p / 2) nn.push_back(-1);
    for (std::vector<int>* row : {&m, &nn, &mllm}) row->push_back(i);
  }
  mllm.push_back(-1);
  std::vector<TestStage> towers = row_of_stages(rounds(p, 1));
  towers[static_cast<size_t>(p / 2)].reads.clear();
  towers.push_back(shared_stage(p, {p / 2 - 1, p - 1}));
  towers.back().memory = 2;
  return {{"M", row_with_shared(p, m)},
          {"NN", row_with_shared(p, nn)},
          {"MLLM", row_with_shared(p, mllm)},
          {"K", towers},
          {"X", opposite_chains(p)},
          {"wave", row_of_stages(there_and_back(p))},
          {"rounds", row_of_stages(rounds(p, 2))}};
}

/// A graph of stages on random devices.
inline std::vector<TestStage> random_stages(std::mt19937& random, int count, int devices) {
  const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
  std::vector<TestStage> stages;
  for (int s = 0; s < count; ++s) {
    TestStage stage = {{}, {}, 2 * below(3)};
    for (int device = 0; device < devices; ++device)
      if (below(3) == 0) stage.devices.push_back(device);
    if (stage.devices.empty()) stage.devices.push_back(below(devices));
    for (int earlier = 0; earlier < s; ++earlier)
      if (below(2) == 0) stage.reads.push_back(earlier);
    stages.push_back(std::move(stage));
  }
  return stages;
}

/// "a0" for micro-batch 0 of the forward pass of stage 0, "A0" for its backward pass, "A0w" for the part for weights.
inline std::string turn_text(const StagedPipeline& pipeline, const PipelineTurn& turn) {
  const auto block = static_cast<size_t>(turn.block);
  const BlockKind kind = pipeline.kind[block];
  const char first = kind == BlockKind::Forward ? 'a' : 'A';
  std::string text(1, static_cast<char>(first + pipeline.stage[block]));
  text += std::to_string(turn.micro_batch);
  return kind == BlockKind::Weight ? text + "w" : text;
}

/// The turns of a device; all turns for device -1.
inline std::string table_of(const StagedPipeline& pipeline, const std::vector<PipelineTurn>& turns, int device) {
  std::string text;
  for (const PipelineTurn& turn : turns) {
    const std::vector<int>& devices = pipeline.problem.blocks[static_cast<size_t>(turn.block)].devices;
    if (device >= 0 && std::count(devices.begin(), devices.end(), device) == 0) continue;
    text += (text.empty() ? "" : " ") + turn_text(pipeline, turn);
  }
  return text;
}

/// Runs each device's turns by themselves, a block when it is the next one on all of its devices: how many turns run
/// before all devices wait.
inline size_t turns_that_run(const StagedPipeline& pipeline, const std::vector<PipelineTurn>& turns) {
  std::vector<std::vector<PipelineTurn>> queues(pipeline.problem.limits.size());
  for (const PipelineTurn& turn : turns)
    for (const int device : pipeline.problem.blocks[static_cast<size_t>(turn.block)].devices)
      queues[static_cast<size_t>(device)].push_back(turn);
  std::vector<size_t> next(queues.size(), 0);
  std::vector<PipelineTurn> done;
  const auto is_done = [&](int block, int m) {
    return std::count(done.begin(), done.end(), PipelineTurn{block, m}) > 0;
  };
  for (bool is_moving = true; is_moving;) {
    is_moving = false;
    for (size_t queue = 0; queue < queues.size(); ++queue) {
      if (next[queue] == queues[queue].size()) continue;
      const PipelineTurn turn = queues[queue][next[queue]];
      const PipelineBlock& block = pipeline.problem.blocks[static_cast<size_t>(turn.block)];
      const auto is_next = [&](int device) {
        const auto other = static_cast<size_t>(device);
        return next[other] < queues[other].size() && queues[other][next[other]] == turn;
      };
      const auto has_run = [&](int earlier) { return is_done(earlier, turn.micro_batch); };
      if (!std::all_of(block.devices.begin(), block.devices.end(), is_next)) continue;
      if (!std::all_of(block.after.begin(), block.after.end(), has_run)) continue;
      for (const int device : block.devices) ++next[static_cast<size_t>(device)];
      done.push_back(turn);
      is_moving = true;
    }
  }
  return done.size();
}

/// The error in an order; "" if it is right.
inline std::string fault_of_order(const StagedPipeline& pipeline, const std::vector<PipelineTurn>& turns,
                                  int micro_batches) {
  std::vector<int> counts(pipeline.problem.blocks.size(), 0);
  for (const PipelineTurn& turn : turns) {
    const auto block = static_cast<size_t>(turn.block);
    if (turn.micro_batch != counts[block]++) return turn_text(pipeline, turn) + " is not the next of its block";
    for (const int earlier : pipeline.problem.blocks[block].after)
      if (counts[static_cast<size_t>(earlier)] <= turn.micro_batch)
        return turn_text(pipeline, turn) + " is listed too early";
  }
  for (const int count : counts)
    if (count != micro_batches) return "turns are missing";
  return turns_that_run(pipeline, turns) == turns.size() ? "" : "devices wait for each other";
}

}  // namespace weftc
