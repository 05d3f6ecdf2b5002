// A pipeline's blocks as parts of stages, and lists of turns: which block runs for which micro-batch next.
#pragma once
#include "passes/pipelining/fill_search.h"

namespace weftc {

inline size_t as_index(int i) { return static_cast<size_t>(i); }

/// Weight: the part of a backward pass that makes gradients of weights only. A stage that has such a block has a split
/// backward pass; without one, its Backward block is all of it.
enum class BlockKind { Forward, Backward, Weight };

/// All that one block sends to another at once, over one link.
struct PipelineTransfer {
  // blocks of the problem; `to` is after `from`
  int from, to;
  int64_t time;  // positive
  int link;      // 0, 1, ...: transfers of one link wait for each other
};
/// Each stage has one Forward block, for training one Backward block, and perhaps one Weight block. Blocks are `after`
/// all that they read: Forward after the Forward of stages that the stage reads, Backward after its Forward and after
/// the Backward of the stage's readers, Weight after its Backward.
struct StagedPipeline {
  PipelineProblem problem;
  std::vector<int> stage;       // by block of the problem
  std::vector<BlockKind> kind;  // by block of the problem
  std::vector<PipelineTransfer> transfers = {};
};

/// The problem with a block for each transfer, appended to its own blocks, on a device for each link. `to` is after the
/// transfer, which is after `from`.
PipelineProblem with_transfers(const StagedPipeline& pipeline);

struct StageBlocks {
  int forward = -1, backward = -1, weight = -1;  // -1: the stage has none
};
std::vector<StageBlocks> blocks_by_stage(const StagedPipeline& pipeline);

/// Orders the Backward block of each stage after its Forward block, and its Weight block after that, even if they do
/// not read each other.
void order_within_stages(StagedPipeline& pipeline);

/// The stages that read each stage.
std::vector<std::vector<int>> readers_of_stages(const StagedPipeline& pipeline);

/// The stages by number, but each after those that it reads.
std::vector<int> stages_in_order(const StagedPipeline& pipeline);

/// The devices of a stage's forward pass, ascending.
std::vector<int> place_of(const StagedPipeline& pipeline, int stage);

bool share_a_device(const std::vector<int>& a, const std::vector<int>& b);

/// A forward pass of 1, a backward pass of 2, and each part of a split one of 1: with these times the orders of the
/// literature are drawn.
StagedPipeline with_unit_times(const StagedPipeline& pipeline);

/// One block for one micro-batch.
struct PipelineTurn {
  int block;
  int micro_batch;
  bool operator==(const PipelineTurn&) const = default;
};

/// The turns of with_transfers(pipeline): those of a block's transfers come right after the block's.
std::vector<PipelineTurn> with_transfer_turns(const StagedPipeline& pipeline, const std::vector<PipelineTurn>& turns);

/// The times of an order: each device runs its turns as listed, each as soon as the devices of its block are free and
/// the blocks before it have ended.
struct OrderTimes {
  PipelineStarts starts;
  int64_t length = 0;
  std::vector<int64_t> peaks;  // the most memory that each device holds
};
OrderTimes times_of(const PipelineProblem& problem, const std::vector<PipelineTurn>& turns, int micro_batches);

/// The list of a schedule: turns in the order of their starts; those that start together by micro-batch.
std::vector<PipelineTurn> turns_of(const PipelineProblem& problem, const PipelineStarts& starts);

}  // namespace weftc
