#include "passes/pipeline_order.h"

#include <algorithm>

namespace weft {

namespace {

std::vector<Pipeline::Entry> by_stage(int stages, int micro_batches) {
  std::vector<Pipeline::Entry> order;
  for (int s = 0; s < stages; ++s)
    for (int m = 0; m < micro_batches; ++m) order.push_back({s, m});
  return order;
}

// Without a backward phase 1F1B is the wavefront: stage s runs micro-batch m at time s + m.
std::vector<Pipeline::Entry> by_wavefront(int stages, int micro_batches) {
  std::vector<Pipeline::Entry> order;
  for (int time = 0; time < stages + micro_batches - 1; ++time)
    for (int s = std::min(time, stages - 1); s >= 0; --s)
      if (time - s < micro_batches) order.push_back({s, time - s});
  return order;
}

int find_stage(const PipelineRequest& request, const std::string& name) {
  for (size_t s = 0; s < request.stages.size(); ++s)
    if (request.stages[s].name == name) return static_cast<int>(s);
  return -1;
}

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
      diags.error("order-missing", request.loc, "the order lacks stage '{}' for micro-batch {}", request.stages[s].name,
                  done[s]);
}

}  // namespace

std::optional<Pipeline> pipeline_order(const Schedule& schedule, Diags& diags) {
  const PipelineRequest& request = *schedule.pipeline;
  Pipeline pipeline;
  for (const StageRequest& s : request.stages) pipeline.stages.push_back(s.name);
  pipeline.micro_batches = request.micro_batches;
  const int stages = static_cast<int>(request.stages.size());
  switch (request.order) {
    case PipelineRequest::Order::GPipe:
      pipeline.order = by_stage(stages, request.micro_batches);
      break;
    case PipelineRequest::Order::OneFOneB:
      pipeline.order = by_wavefront(stages, request.micro_batches);
      break;
    case PipelineRequest::Order::Table:
      read_table(request, pipeline, diags);
      break;
    case PipelineRequest::Order::Search:
      diags.error("order-search-unsupported", request.loc,
                  "searched orders are not built yet; give gpipe, 1f1b or a table");
      break;
  }
  if (!diags.ok()) return {};
  return pipeline;
}

}  // namespace weft
