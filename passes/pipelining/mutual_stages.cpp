// Stages are joined until no blocks of two of them wait for each other.
#include "passes/pipelining/mutual_stages.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

namespace weftc {

namespace {

/// Two stages with blocks that wait for each other.
std::optional<std::pair<int, int>> mutual_stages(StagedPipeline pipeline) {
  for (const PipelineEdge& edge : cut_circles(pipeline.problem)) {
    const int a = pipeline.stage[as_index(edge.from)], b = pipeline.stage[as_index(edge.to)];
    if (a != b) return std::minmax(a, b);
  }
  return {};
}

/// By block: its position among blocks that do not wait for each other.
std::vector<size_t> positions_in_order(PipelineProblem problem) {
  cut_circles(problem);
  const std::vector<int> order = topological_order(problem);
  std::vector<size_t> positions(order.size());
  for (size_t at = 0; at < order.size(); ++at) positions[as_index(order[at])] = at;
  return positions;
}

/// Blocks of one stage and kind become one, on the devices of all. `to` has a number for each stage.
JoinedStages joined(const StagedPipeline& pipeline, const std::vector<int>& to) {
  JoinedStages made;
  std::map<std::pair<int, BlockKind>, int> numbers;
  std::vector<int> number_of(pipeline.stage.size());
  for (size_t i = 0; i < pipeline.stage.size(); ++i) {
    const int stage = to[as_index(pipeline.stage[i])];
    const auto [found, is_first] =
        numbers.emplace(std::pair(stage, pipeline.kind[i]), static_cast<int>(made.blocks.size()));
    number_of[i] = found->second;
    if (is_first) {
      const PipelineBlock& block = pipeline.problem.blocks[i];
      made.pipeline.problem.blocks.push_back({{}, block.time, block.memory, {}});
      made.pipeline.stage.push_back(stage);
      made.pipeline.kind.push_back(pipeline.kind[i]);
      made.blocks.emplace_back();
    }
    made.blocks[as_index(found->second)].push_back(static_cast<int>(i));
  }
  made.pipeline.problem.limits = pipeline.problem.limits;
  const std::vector<size_t> positions = positions_in_order(pipeline.problem);
  for (std::vector<int>& members : made.blocks)
    std::ranges::sort(members, {}, [&](int member) { return positions[as_index(member)]; });
  for (size_t j = 0; j < made.blocks.size(); ++j) {
    std::set<int> devices, after;
    for (const int member : made.blocks[j]) {
      const PipelineBlock& block = pipeline.problem.blocks[as_index(member)];
      devices.insert(block.devices.begin(), block.devices.end());
      for (const int earlier : block.after) after.insert(number_of[as_index(earlier)]);
    }
    after.erase(static_cast<int>(j));
    made.pipeline.problem.blocks[j].devices.assign(devices.begin(), devices.end());
    made.pipeline.problem.blocks[j].after.assign(after.begin(), after.end());
  }
  return made;
}

/// Numbers without gaps, by stage; `first` has the stage that each is joined to.
std::vector<int> renumbered(const std::vector<int>& first) {
  std::map<int, int> numbers;
  for (const int stage : first) numbers.emplace(stage, 0);
  int next = 0;
  for (auto& [stage, number] : numbers) number = next++;
  std::vector<int> to;
  for (const int stage : first) to.push_back(numbers.at(stage));
  return to;
}

}  // namespace

JoinedStages join_mutual_stages(const StagedPipeline& pipeline) {
  std::vector<int> first(blocks_by_stage(pipeline).size());
  std::iota(first.begin(), first.end(), 0);
  JoinedStages made = joined(pipeline, renumbered(first));
  made.first_stages = first;
  while (const auto mutual = mutual_stages(made.pipeline)) {
    const int kept = made.first_stages[as_index(mutual->first)], gone = made.first_stages[as_index(mutual->second)];
    std::replace(first.begin(), first.end(), gone, kept);
    made = joined(pipeline, renumbered(first));
    const std::set<int> stages(first.begin(), first.end());
    made.first_stages.assign(stages.begin(), stages.end());
  }
  cut_circles(made.pipeline.problem);
  return made;
}

std::vector<PipelineTurn> turns_of_members(const JoinedStages& joined, const std::vector<PipelineTurn>& turns) {
  std::vector<PipelineTurn> all;
  for (const PipelineTurn& turn : turns)
    for (const int member : joined.blocks[as_index(turn.block)]) all.push_back({member, turn.micro_batch});
  return all;
}

}  // namespace weftc
