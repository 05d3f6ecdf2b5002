// Boxes of a trace are steps. Boxes of one rank, block and micro-batch are merged to a box of the picture.
#include "cli/measured_order.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace weftc {

namespace {

/// Streams of transfers between blocks are numbered if there are several.
bool brings_data(const std::string& stream) { return stream.starts_with("send") || stream.starts_with("recv"); }

int64_t as_nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

struct StepTime {
  int rank, block, micro_batch;
  int64_t begin, end;
  auto turn() const { return std::tuple(rank, block, micro_batch); }
};

/// The steps of turns in one iteration, those of a turn together and by time.
std::vector<StepTime> steps_of(const Trace& trace, int iteration) {
  std::vector<StepTime> steps;
  for (size_t i = 0; i < trace.turns.size(); ++i) {
    const TimelineBox& box = trace.all.boxes[i];
    const TimelineLane& lane = trace.all.lanes[as_index(box.lane)];
    const Trace::Turn& turn = trace.turns[i];
    if (trace.of_box[i] != iteration || turn.block < 0 || brings_data(lane.stream)) continue;
    const bool is_once = trace.blocks[as_index(turn.block)].pass == PicturePass::Once;
    steps.push_back(
        {lane.rank, turn.block, is_once ? 0 : turn.micro_batch, as_nanoseconds(box.begin), as_nanoseconds(box.end)});
  }
  std::sort(steps.begin(), steps.end(), [](const StepTime& a, const StepTime& b) {
    return std::tuple(a.turn(), a.begin, a.end) < std::tuple(b.turn(), b.begin, b.end);
  });
  return steps;
}

/// One box for each turn, busy while any of its steps runs.
void add_boxes(OrderPicture& picture, const std::vector<StepTime>& steps) {
  for (size_t i = 0; i < steps.size(); ++i) {
    const StepTime& step = steps[i];
    std::vector<PictureBox>& boxes = picture.lanes[as_index(step.rank)].boxes;
    if (i == 0 || steps[i - 1].turn() != step.turn())
      boxes.push_back({step.block, step.micro_batch, step.begin, step.begin, 0});
    PictureBox& box = boxes.back();
    box.busy += std::max<int64_t>(0, step.end - std::max(step.begin, box.end));
    box.end = std::max(box.end, step.end);
  }
}

/// Steps of two turns may run at once, on streams of their own.
void add_busy_times(OrderPicture& picture, std::vector<StepTime> steps) {
  std::sort(steps.begin(), steps.end(), [](const StepTime& a, const StepTime& b) { return a.begin < b.begin; });
  std::vector<int64_t> ends(picture.lanes.size(), INT64_MIN);
  for (const StepTime& step : steps) {
    if (picture.blocks[as_index(step.block)].pass == PicturePass::Once) continue;
    int64_t& end = ends[as_index(step.rank)];
    picture.lanes[as_index(step.rank)].busy += std::max<int64_t>(0, step.end - std::max(step.begin, end));
    end = std::max(end, step.end);
  }
}

/// Time 0 is the begin of the first micro-batch.
void move_to_begin(OrderPicture& picture) {
  int64_t first = INT64_MAX, last = 0;
  for (const PictureLane& lane : picture.lanes)
    for (const PictureBox& box : lane.boxes)
      if (picture.blocks[as_index(box.block)].pass != PicturePass::Once)
        first = std::min(first, box.begin), last = std::max(last, box.end);
  for (PictureLane& lane : picture.lanes) {
    for (PictureBox& box : lane.boxes) box.begin -= first, box.end -= first;
    std::sort(lane.boxes.begin(), lane.boxes.end(),
              [](const PictureBox& a, const PictureBox& b) { return a.begin < b.begin; });
  }
  picture.length = last - first;
}

}  // namespace

std::optional<OrderPicture> measured_order(const Trace& trace, int iteration) {
  const std::vector<StepTime> steps = steps_of(trace, iteration);
  const auto is_repeated = [&](const StepTime& step) {
    return trace.blocks[as_index(step.block)].pass != PicturePass::Once;
  };
  if (std::none_of(steps.begin(), steps.end(), is_repeated)) return {};
  OrderPicture picture;
  picture.blocks = trace.blocks;
  for (const StepTime& step : steps) {
    picture.micro_batches = std::max(picture.micro_batches, step.micro_batch + 1);
    if (picture.lanes.size() <= as_index(step.rank)) picture.lanes.resize(as_index(step.rank) + 1);
  }
  add_boxes(picture, steps);
  add_busy_times(picture, steps);
  move_to_begin(picture);
  mark_ends(picture);
  return picture;
}

std::optional<double> measured_bubble(const Trace& trace) {
  std::vector<double> bubbles;
  for (const auto& [iteration, span] : trace.iterations)
    if (const std::optional<OrderPicture> picture = measured_order(trace, iteration))
      bubbles.push_back(picture->bubble());
  if (bubbles.empty()) return {};
  std::sort(bubbles.begin(), bubbles.end());
  return bubbles[(bubbles.size() - 1) / 2];
}

}  // namespace weftc
