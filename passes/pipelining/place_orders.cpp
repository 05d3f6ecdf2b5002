// The three orders are written as their authors publish them, phase by phase, so that they can be compared line by
// line.
#include "passes/pipelining/place_orders.h"

#include <algorithm>

namespace weftc {

namespace {

/// The turns of one place as they are added. Each chunk takes its micro-batches in turn, each kind by a count of its
/// own; those from `micro_batches` on are left out, so that a table for more micro-batches serves for fewer.
class PlaceList {
 public:
  PlaceList(const StagedPipeline& pipeline, const std::vector<int>& stages, int micro_batches)
      : micro_batches_(micro_batches) {
    const std::vector<StageBlocks> all = blocks_by_stage(pipeline);
    for (const int stage : stages) chunks_.push_back({all[as_index(stage)]});
  }

  void forward(int chunk) { add(at(chunk).blocks.forward, at(chunk).forwards++); }
  /// The whole of a backward pass.
  void backward(int chunk) {
    inputs(chunk);
    weights(chunk);
  }
  /// The part of a backward pass that other stages wait for.
  void inputs(int chunk) {
    add(at(chunk).blocks.backward, at(chunk).inputs++);
    pending_.push_back(chunk);
  }
  /// The other part, of the chunk's first micro-batch that lacks it.
  void weights(int chunk) {
    add(at(chunk).blocks.weight, at(chunk).weights++);
    pending_.erase(std::find(pending_.begin(), pending_.end(), chunk));
  }
  /// The other part of the backward pass that has waited longest.
  void next_weights() { weights(pending_.front()); }

  int forwards(int chunk) const { return chunks_[as_index(chunk)].forwards; }
  bool has_pending(int chunk) const { return std::count(pending_.begin(), pending_.end(), chunk) > 0; }
  std::vector<PipelineTurn> take() { return std::move(turns_); }

 private:
  struct Chunk {
    StageBlocks blocks;
    int forwards = 0, inputs = 0, weights = 0;
  };
  Chunk& at(int chunk) { return chunks_[as_index(chunk)]; }
  /// Nothing where the stage has no such block.
  void add(int block, int micro_batch) {
    if (block >= 0 && micro_batch < micro_batches_) turns_.push_back({block, micro_batch});
  }

  const int micro_batches_;
  std::vector<Chunk> chunks_;
  std::vector<int> pending_;  // chunks, one for each backward pass that lacks its second part
  std::vector<PipelineTurn> turns_;
};

void repeat(int times, const std::function<void()>& action) {
  for (int i = 0; i < times; ++i) action();
}

bool has_backward(const StagedPipeline& pipeline) {
  return std::count(pipeline.kind.begin(), pipeline.kind.end(), BlockKind::Backward) > 0;
}

/// Writes the turns of place `rank` of p, which has a chunk of either direction. `near` is the chunk that starts at the
/// end of the pipeline nearer to the place, `far` the other one. The eight steps are those of DeepSeek's
/// implementation.
void dual_pipe(PlaceList& list, int p, int rank, int micro_batches) {
  const int half = std::min(rank, p - 1 - rank), from_middle = p / 2 - half - 1;
  const int near = rank < p / 2 ? 0 : 1, far = 1 - near;
  const auto backward = [&](int chunk, bool is_split) {
    if (is_split)
      list.inputs(chunk);
    else
      list.backward(chunk);
  };
  repeat(2 * from_middle, [&] { list.forward(near); });
  repeat(half + 1, [&] { list.forward(near), list.forward(far); });
  repeat(from_middle, [&] { list.inputs(far), list.next_weights(), list.forward(far); });
  repeat(micro_batches - p + half + 1, [&] {
    list.forward(near), list.backward(far);
    list.forward(far), list.backward(near);
  });
  repeat(from_middle, [&] { list.backward(far), list.forward(far), list.backward(near); });
  // The second half of the last backward passes leaves its weights for steps that would be idle.
  for (int i = 0; i <= half; ++i) {
    const int split_from = (half + 1) / 2;
    const bool is_far_split = i > split_from || (i == split_from && half % 2 == 1);
    backward(far, is_far_split);
    backward(near, i >= split_from);
  }
  repeat(from_middle, [&] { list.next_weights(), list.inputs(near); });
  while (list.has_pending(0) || list.has_pending(1)) list.next_weights();
}

/// Writes the turns of place `rank` of p, with chunk 0 on the way there and chunk 1 on the way back. The phases are
/// those of PyTorch's implementation.
void zero_bubble_v(PlaceList& list, int p, int rank, int micro_batches) {
  repeat(2 * (p - rank) - 1, [&] { list.forward(0); });
  repeat(rank, [&] { list.forward(1), list.forward(0); });
  repeat(p - rank, [&] { list.forward(1), list.backward(1); });
  while (list.forwards(1) < list.forwards(0) || list.forwards(0) < micro_batches) {
    if (list.forwards(0) < micro_batches) list.forward(0);
    list.backward(0);
    list.forward(1), list.backward(1);
  }
  repeat(rank, [&] { list.inputs(0), list.inputs(1); });
  repeat(p - rank, [&] { list.inputs(0), list.weights(0); });
  for (const int chunk : {1, 0})
    while (list.has_pending(chunk)) list.weights(chunk);
}

/// Turns that wait are tried again when another place has gone on.
class PlaceMerge {
 public:
  PlaceMerge(const PipelineProblem& problem, const PlaceTurns& places, int micro_batches)
      : problem_(problem),
        places_(places),
        next_(places.size(), 0),
        free_(places.size(), 0),
        starts_(as_index(micro_batches), std::vector<int64_t>(problem.blocks.size(), -1)) {}

  /// Nothing where some turns wait for each other.
  PipelineStarts run() {
    size_t left = 0;
    for (const std::vector<PipelineTurn>& turns : places_) left += turns.size();
    for (size_t before = left + 1; left > 0 && left < before;) {
      before = left;
      for (size_t place = 0; place < places_.size(); ++place)
        while (begin(place)) --left;
    }
    return left == 0 ? std::move(starts_) : PipelineStarts();
  }

 private:
  bool begin(size_t place) {
    if (next_[place] == places_[place].size()) return false;
    const PipelineTurn turn = places_[place][next_[place]];
    std::vector<int64_t>& starts = starts_[as_index(turn.micro_batch)];
    int64_t start = free_[place];
    for (const int earlier : problem_.blocks[as_index(turn.block)].after) {
      if (starts[as_index(earlier)] < 0) return false;
      start = std::max(start, starts[as_index(earlier)] + problem_.blocks[as_index(earlier)].time);
    }
    starts[as_index(turn.block)] = start;
    free_[place] = start + problem_.blocks[as_index(turn.block)].time;
    ++next_[place];
    return true;
  }

  const PipelineProblem& problem_;
  const PlaceTurns& places_;
  std::vector<size_t> next_;
  std::vector<int64_t> free_;
  PipelineStarts starts_;
};

}  // namespace

PlaceTurns interleaved_turns(const StagedPipeline& pipeline, const Placement& placement, int micro_batches) {
  const int p = static_cast<int>(placement.stages.size()), v = static_cast<int>(placement.stages.front().size());
  const int all = micro_batches * v;
  const auto chunk_of = [&](int turn) { return turn % (p * v) / p; };  // p micro-batches of each chunk in turn
  PlaceTurns places;
  for (int rank = 0; rank < p; ++rank) {
    PlaceList list(pipeline, placement.stages[as_index(rank)], micro_batches);
    const int warm_up = has_backward(pipeline) ? std::min(all, 2 * (p - rank - 1) + (v - 1) * p) : all;
    for (int turn = 0; turn < warm_up; ++turn) list.forward(chunk_of(turn));
    for (int turn = 0; has_backward(pipeline) && turn < all; ++turn) {
      if (warm_up + turn < all) list.forward(chunk_of(warm_up + turn));
      list.backward(v - 1 - chunk_of(turn));
    }
    places.push_back(list.take());
  }
  return places;
}

PlaceTurns zero_bubble_v_turns(const StagedPipeline& pipeline, const Placement& placement, int micro_batches) {
  const int p = static_cast<int>(placement.stages.size());
  PlaceTurns places;
  for (int rank = 0; rank < p; ++rank) {
    PlaceList list(pipeline, placement.stages[as_index(rank)], micro_batches);
    zero_bubble_v(list, p, rank, std::max(micro_batches, 2 * p - 1));
    places.push_back(list.take());
  }
  return places;
}

PlaceTurns dual_pipe_turns(const StagedPipeline& pipeline, const Placement& placement, int micro_batches) {
  const int p = static_cast<int>(placement.stages.size());
  PlaceTurns places;
  for (int rank = 0; rank < p; ++rank) {
    PlaceList list(pipeline, placement.stages[as_index(rank)], micro_batches);
    dual_pipe(list, p, rank, std::max(micro_batches, p));
    places.push_back(list.take());
  }
  return places;
}

std::vector<PipelineTurn> merged(const PipelineProblem& problem, const PlaceTurns& places, int micro_batches) {
  const PipelineStarts starts = PlaceMerge(problem, places, micro_batches).run();
  return starts.empty() ? std::vector<PipelineTurn>() : turns_of(problem, starts);
}

}  // namespace weftc
