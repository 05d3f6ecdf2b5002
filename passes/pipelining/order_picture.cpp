// Turns the times of times_of into boxes, levels of memory, and marks of the period.
#include "passes/pipelining/order_picture.h"

#include <algorithm>
#include <map>

#include "ir/base/contains.h"
#include "passes/pipelining/makespan.h"

namespace weftc {

namespace {

PicturePass pass_of(BlockKind kind) {
  return kind == BlockKind::Forward    ? PicturePass::Forward
         : kind == BlockKind::Backward ? PicturePass::Backward
                                       : PicturePass::Weight;
}

class Drawing {
 public:
  Drawing(const StagedPipeline& pipeline, const PipelineStarts& starts, const std::vector<OnceBlock>& once,
          const std::vector<std::string>& names)
      : problem_(pipeline.problem), starts_(starts), once_(once) {
    for (size_t b = 0; b < names.size(); ++b)
      picture_.blocks.push_back({names[b], b < pipeline.kind.size() ? pass_of(pipeline.kind[b]) : PicturePass::Once});
    picture_.lanes.resize(problem_.limits.size());
    picture_.micro_batches = static_cast<int>(starts.size());
  }

  OrderPicture run() {
    for (size_t m = 0; m < starts_.size(); ++m)
      for (size_t b = 0; b < problem_.blocks.size(); ++b) add_turn(b, m);
    for (PictureLane& lane : picture_.lanes) lane.memory = levels_of(lane);
    mark_ends(picture_);
    place_in_front();
    place_after();
    for (PictureLane& lane : picture_.lanes) sort_boxes(lane);
    return std::move(picture_);
  }

 private:
  static void sort_boxes(PictureLane& lane) {
    std::stable_sort(lane.boxes.begin(), lane.boxes.end(),
                     [](const PictureBox& a, const PictureBox& b) { return a.begin < b.begin; });
  }

  void add_turn(size_t b, size_t m) {
    const PipelineBlock& block = problem_.blocks[b];
    const int64_t begin = starts_[m][b], end = begin + block.time;
    for (const int device : block.devices) {
      PictureLane& lane = picture_.lanes[as_index(device)];
      lane.boxes.push_back({static_cast<int>(b), static_cast<int>(m), begin, end, block.time});
      lane.busy += block.time;
    }
    picture_.length = std::max(picture_.length, end);
  }

  /// A block takes its memory, or gives it back, when it starts.
  std::vector<MemoryLevel> levels_of(PictureLane& lane) const {
    sort_boxes(lane);
    std::vector<MemoryLevel> levels = {{0, 0}};
    for (const PictureBox& box : lane.boxes) {
      const int64_t bytes = levels.back().bytes + problem_.blocks[as_index(box.block)].memory;
      if (levels.back().at == box.begin)
        levels.back().bytes = bytes;
      else if (bytes != levels.back().bytes)
        levels.push_back({box.begin, bytes});
      lane.peak = std::max(lane.peak, bytes);
    }
    return levels;
  }

  void add_once(size_t number, int64_t begin) {
    const int block = static_cast<int>(problem_.blocks.size() + number);
    for (const int device : once_[number].devices)
      picture_.lanes[as_index(device)].boxes.push_back(
          {block, 0, begin, begin + once_[number].time, once_[number].time});
  }

  /// Places blocks before the first micro-batch, from the last to the first, each as late as its devices and the later
  /// blocks allow.
  void place_in_front() {
    std::vector<int64_t> latest(once_.size(), INT64_MAX), free(picture_.lanes.size(), 0);
    for (size_t lane = 0; lane < free.size(); ++lane)
      if (!picture_.lanes[lane].boxes.empty()) free[lane] = picture_.lanes[lane].boxes.front().begin;
    for (size_t i = once_.size(); i-- > 0;) {
      if (once_[i].is_after) continue;
      int64_t end = latest[i];
      for (const int device : once_[i].devices) end = std::min(end, free[as_index(device)]);
      const int64_t begin = end - once_[i].time;
      for (const int device : once_[i].devices) free[as_index(device)] = begin;
      for (const OnceBlock::Wait& wait : once_[i].waits)
        latest[as_index(wait.earlier)] = std::min(latest[as_index(wait.earlier)], begin - wait.time);
      add_once(i, begin);
    }
  }

  void place_after() {
    std::vector<int64_t> ends(once_.size(), 0), free(picture_.lanes.size(), 0);
    for (size_t lane = 0; lane < free.size(); ++lane)
      for (const PictureBox& box : picture_.lanes[lane].boxes) free[lane] = std::max(free[lane], box.end);
    for (size_t i = 0; i < once_.size(); ++i) {
      if (!once_[i].is_after) continue;
      int64_t begin = 0;
      for (const int device : once_[i].devices) begin = std::max(begin, free[as_index(device)]);
      for (const OnceBlock::Wait& wait : once_[i].waits)
        begin = std::max(begin, ends[as_index(wait.earlier)] + wait.time);
      ends[i] = begin + once_[i].time;
      for (const int device : once_[i].devices) free[as_index(device)] = ends[i];
      add_once(i, begin);
    }
  }

  const PipelineProblem& problem_;
  const PipelineStarts& starts_;
  const std::vector<OnceBlock>& once_;
  OrderPicture picture_;
};

/// Periods may lie in [least, end) so that in each of them a block starts as often as in all others.
struct SteadyRun {
  int64_t least, end;
};

/// The longest run of one block's starts, by micro-batch, that are a period apart; nothing where no starts are.
std::optional<SteadyRun> steady_run(const std::vector<int64_t>& starts, int copies, int64_t period) {
  const int count = static_cast<int>(starts.size()) - copies;
  int longest = 0, after = 0;
  for (int m = 0, run = 0; m < count; ++m) {
    run = starts[as_index(m + copies)] - starts[as_index(m)] == period ? run + 1 : 0;
    if (run >= longest) longest = run, after = m + 1;
  }
  if (longest < copies) return {};
  // If the run went on at either end, one more start would lie here.
  SteadyRun run = {starts[as_index(after - longest + copies - 1)] - period + 1, starts[as_index(after)] + period};
  if (after > longest) run.least = std::max(run.least, starts[as_index(after - longest - 1)] + 1);
  if (after < count) run.end = std::min(run.end, starts[as_index(after + copies)]);
  return run;
}

/// The repetition of this period, if all blocks have one at the same time.
std::optional<Repetend> repetition(const std::vector<std::vector<int64_t>>& by_block, int copies, int64_t period) {
  int64_t least = INT64_MIN, end = INT64_MAX;
  for (const std::vector<int64_t>& starts : by_block) {
    const std::optional<SteadyRun> run = steady_run(starts, copies, period);
    if (!run) return {};
    least = std::max(least, run->least), end = std::min(end, run->end);
  }
  int64_t begin = INT64_MAX;  // where some block starts
  for (const std::vector<int64_t>& starts : by_block)
    for (const int64_t start : starts)
      if (start >= least) begin = std::min(begin, start);
  if (begin >= end || (end - begin) / period < 2) return {};
  return Repetend{begin, period, copies, static_cast<int>((end - begin) / period)};
}

/// How far apart starts are, the most frequent distance first.
std::vector<int64_t> distances(const std::vector<std::vector<int64_t>>& by_block, int copies) {
  std::map<int64_t, int> counts;
  for (const std::vector<int64_t>& starts : by_block)
    for (size_t m = as_index(copies); m < starts.size(); ++m) ++counts[starts[m] - starts[m - as_index(copies)]];
  std::vector<std::pair<int, int64_t>> order;
  for (const auto& [distance, count] : counts)
    if (distance > 0) order.push_back({-count, distance});
  std::sort(order.begin(), order.end());
  constexpr size_t kMostTried = 16;
  std::vector<int64_t> result;
  for (size_t i = 0; i < std::min(order.size(), kMostTried); ++i) result.push_back(order[i].second);
  return result;
}

double part_idle(double busy, int64_t length) { return length > 0 ? 1 - busy / static_cast<double>(length) : 0; }

/// The mean of the ranks that run blocks of micro-batches.
double mean_busy(const OrderPicture& picture) {
  double sum = 0;
  int count = 0;
  for (const PictureLane& lane : picture.lanes)
    if (lane.busy > 0) sum += static_cast<double>(lane.busy), ++count;
  return count > 0 ? sum / count : 0;
}

}  // namespace

std::string_view name_of(PicturePass pass) {
  switch (pass) {
    case PicturePass::Forward:
      return "forward";
    case PicturePass::Backward:
      return "backward";
    case PicturePass::Weight:
      return "weight";
    case PicturePass::Once:
      break;
  }
  return "once";
}

double OrderPicture::bubble() const { return part_idle(mean_busy(*this), length); }
std::string PictureBlock::stage() const {
  if (pass == PicturePass::Once) return "";
  const std::string part = "_" + std::string(name_of(pass));
  return name.ends_with(part) ? name.substr(0, name.size() - part.size()) : name;
}

std::vector<std::string> OrderPicture::stages_of(const PictureLane& lane) const {
  std::vector<std::string> stages;
  for (const PictureBox& box : lane.boxes)
    if (const std::string stage = blocks[as_index(box.block)].stage(); !stage.empty() && !contains(stages, stage))
      stages.push_back(stage);
  return stages;
}

double OrderPicture::bubble_of(const PictureLane& lane) const {
  return part_idle(static_cast<double>(lane.busy), length);
}
double OrderPicture::least_bubble() const { return part_idle(mean_busy(*this), least.value_or(length)); }

int64_t OrderPicture::first_begin() const {
  int64_t first = 0;
  for (const PictureLane& lane : lanes)
    for (const PictureBox& box : lane.boxes) first = std::min(first, box.begin);
  return first;
}

int64_t OrderPicture::last_end() const {
  int64_t last = length;
  for (const PictureLane& lane : lanes)
    for (const PictureBox& box : lane.boxes) last = std::max(last, box.end);
  return last;
}

void mark_ends(OrderPicture& picture) {
  picture.warm_up_end = 0, picture.drain_begin = picture.length;
  for (const PictureLane& lane : picture.lanes) {
    int64_t first = INT64_MAX, last = 0;
    for (const PictureBox& box : lane.boxes) {
      if (picture.blocks[as_index(box.block)].pass == PicturePass::Once) continue;
      first = std::min(first, box.begin), last = std::max(last, box.end);
    }
    if (first > last) continue;  // the rank runs no block
    picture.warm_up_end = std::max(picture.warm_up_end, first);
    picture.drain_begin = std::min(picture.drain_begin, last);
  }
}

std::optional<Repetend> repetend_of(const PipelineProblem& problem, const PipelineStarts& starts) {
  std::vector<std::vector<int64_t>> by_block(problem.blocks.size());
  for (const std::vector<int64_t>& micro_batch : starts)
    for (size_t b = 0; b < by_block.size(); ++b) by_block[b].push_back(micro_batch[b]);
  for (int copies = 1; copies <= 3; ++copies) {
    std::optional<Repetend> best;
    for (const int64_t period : distances(by_block, copies)) {
      const std::optional<Repetend> found = repetition(by_block, copies, period);
      if (found && (!best || found->times > best->times)) best = found;
    }
    if (best) return best;
  }
  return {};
}

OrderPicture picture_of(const StagedPipeline& pipeline, const std::vector<PipelineTurn>& turns, int micro_batches,
                        const std::vector<OnceBlock>& once, const std::vector<std::string>& names) {
  const PipelineProblem whole = with_transfers(pipeline);
  const OrderTimes times = times_of(whole, with_transfer_turns(pipeline, turns), micro_batches);
  OrderPicture picture = Drawing(pipeline, times.starts, once, names).run();
  picture.least = least_length(whole, micro_batches);
  picture.repetend = repetend_of(pipeline.problem, times.starts);
  if (picture.repetend) {
    picture.warm_up_end = picture.repetend->begin;
    picture.drain_begin = picture.repetend->end();
  }
  return picture;
}

}  // namespace weftc
