// A forward pass goes first wherever its bounds allow one: the bounds then make a device alternate.
#include "passes/pipelining/list_order.h"

#include <algorithm>
#include <climits>
#include <set>
#include <tuple>

#include "ir/base/check.h"

namespace weftc {

namespace {

/// By stage: the blocks that have all begun when a micro-batch is given back. A stage without a backward pass has those
/// of its readers: if it ran far ahead, the list would hold its results until they read them.
std::vector<std::set<int>> releases_of(const StagedPipeline& pipeline, bool with_weight) {
  const std::vector<StageBlocks> stages = blocks_by_stage(pipeline);
  const std::vector<std::vector<int>> readers = readers_of_stages(pipeline);
  const std::vector<int> sequence = stages_in_order(pipeline);
  std::vector<std::set<int>> releases(stages.size());
  for (auto stage = sequence.rbegin(); stage != sequence.rend(); ++stage) {
    const StageBlocks& blocks = stages[as_index(*stage)];
    std::set<int>& own = releases[as_index(*stage)];
    if (with_weight && blocks.weight >= 0)
      own = {blocks.weight};
    else if (blocks.backward >= 0)
      own = {blocks.backward};
    else
      for (const int reader : readers[as_index(*stage)])
        own.insert(releases[as_index(reader)].begin(), releases[as_index(reader)].end());
  }
  return releases;
}

/// Whether a block needs a device together with others that some block uses without them.
bool is_wide(const PipelineProblem& problem, int i) {
  const std::vector<int>& devices = problem.blocks[as_index(i)].devices;
  return std::any_of(problem.blocks.begin(), problem.blocks.end(), [&](const PipelineBlock& other) {
    return other.devices.size() < devices.size() && share_a_device(other.devices, devices);
  });
}

/// Pairs of a Backward and a Weight block that run as one. Weight blocks of many devices fill nothing.
std::vector<StageBlocks> joined_passes(const StagedPipeline& pipeline, const ListRules& rules) {
  std::vector<StageBlocks> joined;
  for (const StageBlocks& stage : blocks_by_stage(pipeline))
    if (stage.weight >= 0 && (!rules.fills_with_weight || is_wide(pipeline.problem, stage.weight)))
      joined.push_back(stage);
  return joined;
}

class ListScheduler {
 public:
  ListScheduler(const StagedPipeline& pipeline, const ListRules& rules, int micro_batches);
  PipelineStarts run();

 private:
  /// A block that can begin as far as other blocks are concerned. Less is earlier in the list.
  struct Ready {
    int urgency;
    int micro_batch;
    size_t after;  // blocks that are later in the pipeline go first: they give back memory sooner
    int block;
    auto key() const { return std::tuple(urgency, micro_batch, after, block); }
  };

  const PipelineBlock& block(int i) const { return pipeline_.problem.blocks[as_index(i)]; }
  int urgency_of(int i) const;
  bool has_room(int i, const std::vector<int>& most, const std::vector<std::set<int>>& releases) const;
  bool is_ready(int i) const;
  std::vector<Ready> ready_blocks() const;
  bool begin_one();
  void begin(int i);

  const StagedPipeline& pipeline_;
  const ListRules& rules_;
  const int micro_batches_;
  const std::vector<std::set<int>> backward_releases_, weight_releases_;
  std::vector<int> urgency_;
  std::vector<size_t> after_;
  std::vector<int> counts_;    // begun micro-batches, by block
  std::vector<int64_t> free_;  // by device
  PipelineStarts starts_;
  int64_t now_ = 0;
};

ListScheduler::ListScheduler(const StagedPipeline& pipeline, const ListRules& rules, int micro_batches)
    : pipeline_(pipeline),
      rules_(rules),
      micro_batches_(micro_batches),
      backward_releases_(releases_of(pipeline, false)),
      weight_releases_(releases_of(pipeline, true)),
      after_(pipeline.stage.size(), 0),
      counts_(pipeline.stage.size(), 0),
      free_(pipeline.problem.limits.size(), 0),
      starts_(as_index(micro_batches), std::vector<int64_t>(pipeline.stage.size(), 0)) {
  const std::vector<int> order = topological_order(pipeline.problem);
  for (size_t at = 0; at < order.size(); ++at) after_[as_index(order[at])] = order.size() - at;
  for (int i = 0; i < static_cast<int>(pipeline.stage.size()); ++i) urgency_.push_back(urgency_of(i));
}

/// Blocks of many devices go before blocks of one, or the devices would hardly ever be free together.
int ListScheduler::urgency_of(int i) const {
  if (is_wide(pipeline_.problem, i)) return 0;
  switch (pipeline_.kind[as_index(i)]) {
    case BlockKind::Forward:
      return 1;
    case BlockKind::Backward:
      return 2;
    case BlockKind::Weight:
      return 3;
  }
  return 3;
}

bool ListScheduler::has_room(int i, const std::vector<int>& most, const std::vector<std::set<int>>& releases) const {
  const size_t stage = as_index(pipeline_.stage[as_index(i)]);
  if (most.empty() || releases[stage].empty()) return true;
  int released = INT_MAX;
  for (const int last : releases[stage]) released = std::min(released, counts_[as_index(last)]);
  return counts_[as_index(i)] - released < most[stage];
}

bool ListScheduler::is_ready(int i) const {
  const int micro_batch = counts_[as_index(i)];
  if (micro_batch == micro_batches_) return false;
  for (const int earlier : block(i).after) {
    if (counts_[as_index(earlier)] <= micro_batch) return false;
    if (starts_[as_index(micro_batch)][as_index(earlier)] + block(earlier).time > now_) return false;
  }
  if (pipeline_.kind[as_index(i)] != BlockKind::Forward) return true;
  return has_room(i, rules_.in_flight, backward_releases_) && has_room(i, rules_.kept, weight_releases_);
}

std::vector<ListScheduler::Ready> ListScheduler::ready_blocks() const {
  std::vector<Ready> ready;
  for (int i = 0; i < static_cast<int>(counts_.size()); ++i)
    if (is_ready(i)) ready.push_back({urgency_[as_index(i)], counts_[as_index(i)], after_[as_index(i)], i});
  std::sort(ready.begin(), ready.end(), [](const Ready& a, const Ready& b) { return a.key() < b.key(); });
  return ready;
}

void ListScheduler::begin(int i) {
  starts_[as_index(counts_[as_index(i)]++)][as_index(i)] = now_;
  for (const int device : block(i).devices) free_[as_index(device)] = now_ + block(i).time;
}

/// Begins the first block of the list whose devices are free. A block that waits for some of its devices keeps the
/// others free, except for blocks that end before it can begin.
bool ListScheduler::begin_one() {
  std::vector<int64_t> reserved(free_.size(), INT64_MAX);
  for (const Ready& ready : ready_blocks()) {
    int64_t earliest = now_, until = INT64_MAX;
    for (const int device : block(ready.block).devices) {
      earliest = std::max(earliest, free_[as_index(device)]);
      until = std::min(until, reserved[as_index(device)]);
    }
    if (earliest == now_ && now_ + block(ready.block).time <= until) {
      begin(ready.block);
      return true;
    }
    for (const int device : block(ready.block).devices)
      reserved[as_index(device)] = std::min(reserved[as_index(device)], earliest);
  }
  return false;
}

PipelineStarts ListScheduler::run() {
  const size_t all = counts_.size() * as_index(micro_batches_);
  for (size_t begun = 0; begun < all;) {
    if (begin_one()) {
      ++begun;
      continue;
    }
    int64_t next = INT64_MAX;
    for (const int64_t free : free_)
      if (free > now_) next = std::min(next, free);
    // The earliest micro-batch that has not ended is within all bounds, so that something can always run.
    WEFT_CHECK(next != INT64_MAX, "a pipeline waits without end");
    now_ = next;
  }
  return std::move(starts_);
}

}  // namespace

std::vector<int> depths_of(const StagedPipeline& pipeline) {
  const std::vector<StageBlocks> stages = blocks_by_stage(pipeline);
  const std::vector<std::vector<int>> readers = readers_of_stages(pipeline);
  const std::vector<int> sequence = stages_in_order(pipeline);
  std::vector<int> depths(stages.size(), 1);
  for (auto stage = sequence.rbegin(); stage != sequence.rend(); ++stage)
    for (const int reader : readers[as_index(*stage)]) {
      const bool is_same_place = place_of(pipeline, *stage) == place_of(pipeline, reader);
      depths[as_index(*stage)] = std::max(depths[as_index(*stage)], depths[as_index(reader)] + (is_same_place ? 0 : 1));
    }
  return depths;
}

ListRules one_f_one_b(const std::vector<int>& depths) { return {depths, {}, false}; }

ListRules zero_bubble_h1(const StagedPipeline& pipeline, const std::vector<int>& depths) {
  ListRules rules = {depths, depths, true};
  std::vector<int> held(pipeline.problem.limits.size(), 0), stages(held.size(), 0);
  for (int stage = 0; stage < static_cast<int>(depths.size()); ++stage)
    for (const int device : place_of(pipeline, stage))
      held[as_index(device)] += depths[as_index(stage)], ++stages[as_index(device)];
  const int most = *std::max_element(held.begin(), held.end());
  for (int stage = 0; stage < static_cast<int>(depths.size()); ++stage) {
    int spare = INT_MAX;
    for (const int device : place_of(pipeline, stage))
      spare = std::min(spare, (most - held[as_index(device)]) / stages[as_index(device)]);
    rules.kept[as_index(stage)] += spare;
  }
  return rules;
}

std::vector<PipelineTurn> list_order(const StagedPipeline& pipeline, const ListRules& rules, int micro_batches) {
  const std::vector<StageBlocks> joined = joined_passes(pipeline, rules);
  StagedPipeline scheduled = pipeline;
  for (const StageBlocks& stage : joined) {
    PipelineBlock& weight = scheduled.problem.blocks[as_index(stage.weight)];
    scheduled.problem.blocks[as_index(stage.backward)].time += weight.time;
    weight.devices.clear();
    weight.time = 0;
  }
  PipelineStarts starts = ListScheduler(scheduled, rules, micro_batches).run();
  for (const StageBlocks& stage : joined)
    for (std::vector<int64_t>& of : starts)
      of[as_index(stage.weight)] =
          of[as_index(stage.backward)] + pipeline.problem.blocks[as_index(stage.backward)].time;
  return turns_of(pipeline.problem, starts);
}

}  // namespace weftc
