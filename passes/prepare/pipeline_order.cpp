// Turns the orders of the schedule (names, tables and problems) into lists of blocks and micro-batches.
#include "passes/prepare/pipeline_order.h"

#include <algorithm>
#include <map>

#include "passes/pipelining/mutual_stages.h"
#include "passes/pipelining/orders.h"

namespace weftc {

std::string name_in_table(const PipelineRequest& request, const Pipeline::Block& block, bool is_training) {
  static constexpr const char* kNames[] = {".forward", ".backward", ".update"};
  const std::string& stage = request.stages[static_cast<size_t>(block.stage)].name;
  if (!is_training) return stage;
  return stage + (block.of_weights ? ".weight" : kNames[static_cast<int>(block.phase)]);
}

namespace {

/// The schedule's own list; every block must run its micro-batches in ascending order, each once.
void read_table(const Schedule& schedule, Pipeline& pipeline, Diags& diags) {
  const PipelineRequest& request = *schedule.pipeline;
  std::vector<std::string> names;
  for (const Pipeline::Block& block : pipeline.blocks)
    names.push_back(name_in_table(request, block, schedule.train.has_value()));
  std::vector<int> done(names.size(), 0);
  for (const OrderEntry& entry : request.table) {
    const size_t block = static_cast<size_t>(std::find(names.begin(), names.end(), entry.stage) - names.begin());
    if (block == names.size() || pipeline.blocks[block].turn != Turn::MicroBatch) {
      diags.error("order-unknown-stage", entry.loc, "there is no stage '{}' that runs micro-batches{}", entry.stage,
                  did_you_mean(entry.stage, names));
      continue;
    }
    if (entry.micro_batch != done[block])
      diags.error("order-entry", entry.loc,
                  "stage '{}' runs micro-batch {} where {} is due: micro-batches ascend, each once", entry.stage,
                  entry.micro_batch, done[block]);
    done[block] = entry.micro_batch + 1;
    pipeline.order.push_back({static_cast<int>(block), entry.micro_batch});
  }
  for (size_t b = 0; b < done.size(); ++b)
    if (diags.ok() && pipeline.blocks[b].turn == Turn::MicroBatch && done[b] != request.micro_batches)
      diags.error("order-missing", request.order_loc, "the order lacks stage '{}' for micro-batch {}", names[b],
                  done[b]);
}

/// The parts of a stage follow each other, whatever they read: forward pass, backward pass, its weights.
void check_parts(const PipelineRequest& request, const Pipeline& pipeline, Diags& diags) {
  std::map<std::pair<int, int>, std::pair<int, Loc>> last;  // by stage and micro-batch: the last block, and its entry
  for (size_t at = 0; at < pipeline.order.size(); ++at) {
    const Pipeline::Entry& entry = pipeline.order[at];
    const Loc& loc = request.table[at].loc;
    const auto [found, is_first] = last.try_emplace(
        {pipeline.blocks[static_cast<size_t>(entry.block)].stage, entry.micro_batch}, entry.block, loc);
    if (!is_first && found->second.first > entry.block)
      diags
          .error("order-entry", loc, "'{}' runs micro-batch {} after '{}', which comes after it",
                 name_in_table(request, pipeline.blocks[static_cast<size_t>(entry.block)], true), entry.micro_batch,
                 name_in_table(request, pipeline.blocks[static_cast<size_t>(found->second.first)], true))
          .note(found->second.second, "that is here");
    found->second = {entry.block, loc};
  }
}

/// depends[a][b]: block a reads block b, directly or through others.
std::vector<std::vector<bool>> reach(size_t blocks, const std::vector<BlockRead>& reads) {
  std::vector<std::vector<bool>> depends(blocks, std::vector<bool>(blocks, false));
  for (const BlockRead& r : reads) depends[r.to][r.from] = true;
  for (size_t via = 0; via < blocks; ++via)
    for (size_t a = 0; a < blocks; ++a)
      for (size_t b = 0; b < blocks; ++b)
        if (depends[a][via] && depends[via][b]) depends[a][b] = true;
  return depends;
}

/// The ranks of the place of a stage.
std::vector<int> ranks_of(const std::vector<PlaceRequest>& places, const StageRequest& stage) {
  for (const PlaceRequest& place : places)
    if (place.name == place_of(stage)) return place.ranks;
  return {};
}

/// The blocks that run micro-batches, with times of one; `numbers` gets the number that each has in the pipeline.
StagedPipeline blocks_of(const Schedule& schedule, const Pipeline& pipeline, const std::vector<BlockRead>& reads,
                         std::vector<int>& numbers) {
  const std::vector<PlaceRequest> places = places_of(schedule);
  StagedPipeline made;
  std::vector<int> number_in_problem(pipeline.blocks.size(), -1);
  for (size_t b = 0; b < pipeline.blocks.size(); ++b) {
    const Pipeline::Block& block = pipeline.blocks[b];
    if (block.turn != Turn::MicroBatch) continue;
    number_in_problem[b] = static_cast<int>(numbers.size());
    numbers.push_back(static_cast<int>(b));
    const StageRequest& stage = schedule.pipeline->stages[static_cast<size_t>(block.stage)];
    made.problem.blocks.push_back({ranks_of(places, stage), 1, 0, {}});
    made.stage.push_back(block.stage);
    made.kind.push_back(block.phase == Phase::Forward ? BlockKind::Forward
                        : block.of_weights            ? BlockKind::Weight
                                                      : BlockKind::Backward);
  }
  for (const BlockRead& read : reads) {
    const int from = number_in_problem[static_cast<size_t>(read.from)],
              to = number_in_problem[static_cast<size_t>(read.to)];
    if (from >= 0 && to >= 0) made.problem.blocks[static_cast<size_t>(to)].after.push_back(from);
  }
  order_within_stages(made);
  int world = 0;
  for (const PlaceRequest& place : places)
    for (const int rank : place.ranks) world = std::max(world, rank + 1);
  made.problem.limits.assign(static_cast<size_t>(world), kNoLimit);
  return made;
}

/// An order of the literature. One that is searched needs times, which the plan of this one gives: 1F1B.
void list_named(const Schedule& schedule, Pipeline& pipeline, const std::vector<BlockRead>& reads, Diags& diags) {
  const PipelineRequest& request = *schedule.pipeline;
  std::vector<int> numbers;
  const JoinedStages joined = join_mutual_stages(blocks_of(schedule, pipeline, reads, numbers));
  const bool is_named = request.order == PipelineRequest::Order::Named;
  const auto name = [&](int stage) { return request.stages[as_index(joined.first_stages[as_index(stage)])].name; };
  const OrderedTurns made =
      named_order(joined.pipeline, is_named ? request.named : PipelineOrder::OneFOneB, request.micro_batches, name);
  if (!made.refusal.empty()) {
    diags.error("order-stages", request.order_loc, "{}", made.refusal);
    return;
  }
  for (const PipelineTurn& turn : turns_of_members(joined, made.turns))
    pipeline.order.push_back({numbers[static_cast<size_t>(turn.block)], turn.micro_batch});
}

/// Checks that each block runs after those whose results it reads. Blocks that read each other wait for each other's
/// transfers while they run, which ranks of their own can do.
void check_reads(const PipelineRequest& request, const Pipeline& pipeline, const std::vector<BlockRead>& reads,
                 Diags& diags) {
  const size_t blocks = pipeline.blocks.size();
  const auto depends = reach(blocks, reads);
  std::vector<std::vector<size_t>> position(blocks, std::vector<size_t>(pipeline.micro_batches, 0));
  for (size_t at = 0; at < pipeline.order.size(); ++at)
    position[pipeline.order[at].block][pipeline.order[at].micro_batch] = at;
  const bool table = request.order == PipelineRequest::Order::Table;
  for (const BlockRead& r : reads) {
    const Pipeline::Block &reads_it = pipeline.blocks[r.to], &makes_it = pipeline.blocks[r.from];
    const bool mutual = depends[r.from][r.to];
    if ((mutual && !r.same_place) || reads_it.turn != Turn::MicroBatch || makes_it.turn != Turn::MicroBatch) continue;
    const StageRequest& reader = request.stages[static_cast<size_t>(reads_it.stage)];
    for (int m = 0; m < pipeline.micro_batches; ++m) {
      if (position[r.from][m] < position[r.to][m]) continue;
      Diags::Report wrong = diags.error("order-reads", table ? request.table[position[r.to][m]].loc : request.order_loc,
                                        "stage '{}' runs micro-batch {} before stage '{}', whose '{}' its '{}' reads",
                                        reads_it.name, m, makes_it.name, r.value, r.node);
      if (mutual)
        wrong.note(reader.loc, "the stages '{}' and '{}' read each other: a third one must hold '{}'", reads_it.name,
                   makes_it.name, r.node);
      break;
    }
  }
}

}  // namespace

std::optional<Pipeline> pipeline_order(const Schedule& schedule, std::vector<Pipeline::Block> blocks,
                                       const std::vector<BlockRead>& reads, Diags& diags) {
  const PipelineRequest& request = *schedule.pipeline;
  Pipeline pipeline;
  pipeline.blocks = std::move(blocks);
  pipeline.micro_batches = request.micro_batches;
  pipeline.loc = request.order_loc;
  if (request.order == PipelineRequest::Order::Table) {
    read_table(schedule, pipeline, diags);
    if (diags.ok()) check_parts(request, pipeline, diags);
  } else {
    list_named(schedule, pipeline, reads, diags);
  }
  if (diags.ok()) check_reads(request, pipeline, reads, diags);
  if (!diags.ok()) return {};
  return pipeline;
}

}  // namespace weftc
