// Orders (stage, micro-batch) pairs into one list. Two stages, three micro-batches:
//
//   gpipe   a0 a1 a2 b0 b1 b2        1f1b (forward only: a wavefront)   a0 b0 a1 b1 a2 b2, a(m+1) beside b(m)
#include "passes/prepare/pipeline_order.h"

#include <algorithm>

namespace weftc {

namespace {

/// The stages in the order of the schedule, but each behind those it reads; stages that read each other stay as
/// listed.
std::vector<int> sequence_of(int stages, const std::vector<StageRead>& reads) {
  std::vector<int> sequence;
  std::vector<bool> done(static_cast<size_t>(stages), false);
  const auto is_ready = [&](int stage) {
    return std::none_of(reads.begin(), reads.end(), [&](const StageRead& r) { return r.to == stage && !done[r.from]; });
  };
  while (static_cast<int>(sequence.size()) < stages) {
    int next = -1;
    for (int s = stages - 1; s >= 0; --s)
      if (!done[s] && (next < 0 || is_ready(s) || !is_ready(next))) next = s;
    done[next] = true;
    sequence.push_back(next);
  }
  return sequence;
}

/// GPipe: all micro-batches through one stage, then through the next.
std::vector<Pipeline::Entry> by_stage(const std::vector<int>& sequence, int micro_batches) {
  std::vector<Pipeline::Entry> order;
  for (int s : sequence)
    for (int m = 0; m < micro_batches; ++m) order.push_back({s, m});
  return order;
}

// 1F1B without a backward phase is the wavefront: stage s runs micro-batch m at time s + m.
std::vector<Pipeline::Entry> by_wavefront(const std::vector<int>& sequence, int micro_batches) {
  const int stages = static_cast<int>(sequence.size());
  std::vector<Pipeline::Entry> order;
  for (int time = 0; time < stages + micro_batches - 1; ++time)
    for (int s = std::min(time, stages - 1); s >= 0; --s)
      if (time - s < micro_batches) order.push_back({sequence[static_cast<size_t>(s)], time - s});
  return order;
}

int find_stage(const PipelineRequest& request, const std::string& name) {
  for (size_t s = 0; s < request.stages.size(); ++s)
    if (request.stages[s].name == name) return static_cast<int>(s);
  return -1;
}

/// The schedule's own list; every stage must run its micro-batches in ascending order, each once.
void read_table(const PipelineRequest& request, Pipeline& pipeline, Diags& diags) {
  std::vector<int> done(request.stages.size(), 0);
  for (const OrderEntry& entry : request.table) {
    const int stage = find_stage(request, entry.stage);
    if (stage < 0) {
      diags.error("order-unknown-stage", entry.loc, "there is no stage '{}'{}", entry.stage,
                  did_you_mean(entry.stage, pipeline.stages));
      continue;
    }
    if (entry.micro_batch != done[stage])
      diags.error("order-entry", entry.loc,
                  "stage '{}' runs micro-batch {} where {} is due: micro-batches ascend, each once", entry.stage,
                  entry.micro_batch, done[stage]);
    done[stage] = entry.micro_batch + 1;
    pipeline.order.push_back({stage, entry.micro_batch});
  }
  for (size_t s = 0; s < done.size(); ++s)
    if (diags.ok() && done[s] != request.micro_batches)
      diags.error("order-missing", request.order_loc, "the order lacks stage '{}' for micro-batch {}",
                  request.stages[s].name, done[s]);
}

/// depends[a][b]: stage a reads stage b, directly or through others.
std::vector<std::vector<bool>> reach(int stages, const std::vector<StageRead>& reads) {
  std::vector<std::vector<bool>> depends(stages, std::vector<bool>(stages, false));
  for (const StageRead& r : reads) depends[r.to][r.from] = true;
  for (int via = 0; via < stages; ++via)
    for (int a = 0; a < stages; ++a)
      for (int b = 0; b < stages; ++b)
        if (depends[a][via] && depends[via][b]) depends[a][b] = true;
  return depends;
}

/// Each stage runs behind those whose results it reads. Stages that read each other wait for each other's transfers
/// while they run, which ranks of their own can do.
void check_reads(const PipelineRequest& request, const Pipeline& pipeline, const std::vector<StageRead>& reads,
                 Diags& diags) {
  const int stages = static_cast<int>(request.stages.size());
  const auto depends = reach(stages, reads);
  std::vector<std::vector<size_t>> position(stages, std::vector<size_t>(pipeline.micro_batches, 0));
  for (size_t at = 0; at < pipeline.order.size(); ++at)
    position[pipeline.order[at].stage][pipeline.order[at].micro_batch] = at;
  const bool table = request.order == PipelineRequest::Order::Table;
  for (const StageRead& r : reads) {
    const bool mutual = depends[r.from][r.to];
    if (mutual && !r.same_place) continue;
    const std::string &reader = request.stages[r.to].name, &maker = request.stages[r.from].name;
    for (int m = 0; m < pipeline.micro_batches; ++m) {
      if (position[r.from][m] < position[r.to][m]) continue;
      Diags::Report wrong = diags.error("order-reads", table ? request.table[position[r.to][m]].loc : request.order_loc,
                                        "stage '{}' runs micro-batch {} before stage '{}', whose '{}' its '{}' reads",
                                        reader, m, maker, r.value, r.node);
      if (mutual)
        wrong.note(request.stages[r.to].loc, "the stages '{}' and '{}' read each other: a third one must hold '{}'",
                   reader, maker, r.node);
      break;
    }
  }
}

}  // namespace

std::optional<Pipeline> pipeline_order(const Schedule& schedule, const std::vector<StageRead>& reads, Diags& diags) {
  const PipelineRequest& request = *schedule.pipeline;
  Pipeline pipeline;
  for (const StageRequest& s : request.stages) pipeline.stages.push_back(s.name);
  pipeline.micro_batches = request.micro_batches;
  pipeline.loc = request.order_loc;
  const std::vector<int> sequence = sequence_of(static_cast<int>(request.stages.size()), reads);
  switch (request.order) {
    case PipelineRequest::Order::GPipe:
      pipeline.order = by_stage(sequence, request.micro_batches);
      break;
    case PipelineRequest::Order::OneFOneB:
      pipeline.order = by_wavefront(sequence, request.micro_batches);
      break;
    case PipelineRequest::Order::Table:
      read_table(request, pipeline, diags);
      break;
    case PipelineRequest::Order::Search:
      diags.error("order-search-unsupported", request.order_loc,
                  "searched orders are not built yet; give gpipe, 1f1b or a table");
      break;
  }
  if (diags.ok()) check_reads(request, pipeline, reads, diags);
  if (!diags.ok()) return {};
  return pipeline;
}

}  // namespace weftc
