// A box of the terminal's picture begins with its micro-batch, and is as wide as its time:
//
//   rank 0  0-1-2-......A===3-B===....   forward passes of micro-batches 0, 1, 2; backward pass of 0; ...
//
// A rank that runs several stages has a line for each, with its name.
#include "cli/order_text.h"

#include <algorithm>
#include <cmath>

#include "cli/json.h"
#include "cli/table.h"
#include "cli/timeline_text.h"

namespace weftc {

namespace {

constexpr size_t kTextWidth = 100;

/// The first character of a box, and the character that fills it.
struct BoxText {
  char first, fill;
};

/// Micro-batches are shown modulo 10.
BoxText text_of(const OrderPicture& picture, const PictureBox& box) {
  const auto digit = static_cast<char>(box.micro_batch % 10);
  switch (picture.blocks[as_index(box.block)].pass) {
    case PicturePass::Forward:
      return {static_cast<char>('0' + digit), '-'};
    case PicturePass::Backward:
      return {static_cast<char>('A' + digit), '='};
    case PicturePass::Weight:
      return {static_cast<char>('a' + digit), '~'};
    case PicturePass::Once:
      break;
  }
  return {'#', '#'};
}

/// Times as columns of a picture. Where boxes would be too narrow to be told apart, all periods but the first and the
/// last are left out.
class TextScale {
 public:
  TextScale(const OrderPicture& picture, size_t columns) : begin_(picture.first_begin()), columns_(columns) {
    const int64_t whole = std::max<int64_t>(1, picture.last_end() - begin_);
    const auto& repetend = picture.repetend;
    const bool is_crowded = repetend && turns_of_fullest(picture) * kLeastColumns > columns;
    if (is_crowded && repetend->times > 2) {
      cut_from_ = repetend->begin + repetend->period;
      cut_to_ = repetend->end() - repetend->period;
    }
    const size_t used = columns - (has_cut() ? kCut : 0);
    width_ = static_cast<double>(whole - (cut_to_ - cut_from_)) / static_cast<double>(used);
  }

  bool has_cut() const { return cut_from_ < cut_to_; }
  bool is_cut(const PictureBox& box) const { return box.begin >= cut_from_ && box.end <= cut_to_; }
  size_t cut_column() const { return plain_column(cut_from_); }
  size_t column(int64_t time) const {
    if (time <= cut_from_ || !has_cut()) return plain_column(time);
    return std::min(columns_, plain_column(std::max(time, cut_to_) - (cut_to_ - cut_from_)) + kCut);
  }
  static constexpr size_t kCut = 2;

 private:
  static constexpr size_t kLeastColumns = 2;  // of a box, in the mean

  static size_t turns_of_fullest(const OrderPicture& picture) {
    size_t most = 0;
    for (const PictureLane& lane : picture.lanes) most = std::max(most, lane.boxes.size());
    return most;
  }
  size_t plain_column(int64_t time) const {
    return std::min(columns_, static_cast<size_t>(std::llround(static_cast<double>(time - begin_) / width_)));
  }

  const int64_t begin_;
  const size_t columns_;
  int64_t cut_from_ = 0, cut_to_ = 0;
  double width_ = 1;
};

/// A line of the picture: the blocks of a rank, or its blocks of one stage.
struct Line {
  std::string name;
  size_t rank;
  bool is_first;      // of its rank: it has the rank's figures, and what runs once
  std::string stage;  // "": all that the rank runs
};

/// Long names of stages are cut.
std::vector<Line> lines_of(const OrderPicture& picture) {
  constexpr size_t kLongest = 16;
  std::vector<Line> lines;
  for (size_t rank = 0; rank < picture.lanes.size(); ++rank) {
    const std::string name = format("rank {}", rank);
    const std::vector<std::string> stages = picture.stages_of(picture.lanes[rank]);
    if (stages.size() < 2) lines.push_back({name, rank, true, ""});
    for (size_t s = 0; s < stages.size() && stages.size() > 1; ++s)
      lines.push_back({(s == 0 ? name : std::string(name.size(), ' ')) + "  " + stages[s].substr(0, kLongest), rank,
                       s == 0, stages[s]});
  }
  return lines;
}

/// A box is at least one column wide. If the previous box takes its column, it moves by one, or is left out.
std::string bar_text(const OrderPicture& picture, const Line& line, const TextScale& scale, size_t columns) {
  std::string bar(columns, '.');
  size_t free = 0;
  for (const PictureBox& box : picture.lanes[line.rank].boxes) {
    const std::string stage = picture.blocks[as_index(box.block)].stage();
    if (!line.stage.empty() && stage != line.stage && !(stage.empty() && line.is_first)) continue;
    const size_t begin = std::min(scale.column(box.begin), columns - 1), from = std::max(begin, free);
    if (scale.is_cut(box) || from > begin + 1 || from == columns) continue;
    const BoxText text = text_of(picture, box);
    free = std::max(scale.column(box.end), from + 1);
    bar[from] = text.first;
    for (size_t c = from + 1; c < free; ++c) bar[c] = text.fill;
  }
  if (scale.has_cut()) bar.replace(scale.cut_column(), TextScale::kCut, TextScale::kCut, '/');
  return bar;
}

/// A stroke at the begin of each part, and its name if there is room.
std::string parts_text(const OrderPicture& picture, const TextScale& scale, size_t columns) {
  std::string line(columns, ' ');
  for (const OrderPart& part : parts_of(picture)) {
    const size_t from = scale.column(part.begin), to = scale.column(part.end);
    if (from >= columns || from == to) continue;
    line[from] = '|';
    const std::string name = " " + part.name;
    if (name.size() < to - from) line.replace(from + 1, name.size(), name);
  }
  return line;
}

std::string legend_text(const OrderPicture& picture) {
  const auto has = [&](PicturePass pass) {
    return std::any_of(picture.blocks.begin(), picture.blocks.end(),
                       [&](const PictureBlock& block) { return block.pass == pass; });
  };
  std::string text = "0- 1-: forward passes of micro-batches 0, 1";
  if (has(PicturePass::Backward)) text += "; A= B=: backward";
  if (has(PicturePass::Weight)) text += "; a~ b~: of weights";
  if (has(PicturePass::Once)) text += "; #: once";
  return "  (" + text + (picture.micro_batches > 10 ? "; 10 is 0 again)" : ")") + "\n";
}

std::string picture_text(const OrderPicture& picture) {
  std::vector<std::string> waits, peaks;
  size_t widths[3] = {0, 5, 0};
  const std::vector<Line> lines = lines_of(picture);
  for (const Line& line : lines) {
    const PictureLane& lane = picture.lanes[line.rank];
    waits.push_back(!line.is_first ? "" : lane.busy > 0 ? share_text(picture.bubble_of(lane)) : "-");
    peaks.push_back(!line.is_first || lane.memory.empty() ? "" : bytes_text(peak_of(lane)));
    const std::string* cells[3] = {&line.name, &waits.back(), &peaks.back()};
    for (size_t i = 0; i < 3; ++i) widths[i] = std::max(widths[i], cells[i]->size());
  }
  const bool has_memory = widths[2] > 0;
  if (has_memory) widths[2] = std::max<size_t>(widths[2], 11);
  const size_t columns = kTextWidth - widths[0] - widths[1] - (has_memory ? widths[2] + 2 : 0) - 6;
  const auto row = [&](const std::string& name, const std::string& bar, const std::string& wait,
                       const std::string& peak) {
    std::string line = "  " + name + std::string(widths[0] - name.size() + 2, ' ') + bar + "  ";
    line += std::string(widths[1] - wait.size(), ' ') + wait;
    if (has_memory) line += "  " + std::string(widths[2] - peak.size(), ' ') + peak;
    return line + "\n";
  };
  const TextScale scale(picture, columns);
  std::string text = row("", parts_text(picture, scale, columns), "waits", has_memory ? "at the peak" : "");
  for (size_t i = 0; i < lines.size(); ++i)
    text += row(lines[i].name, bar_text(picture, lines[i], scale, columns), waits[i], peaks[i]);
  return text + legend_text(picture) + (scale.has_cut() ? "  (//: the other periods are left out)\n" : "");
}

std::string count_text(int number, const char* what, const char* plural) {
  return format("{} {}", number, number == 1 ? what : plural);
}

std::string seconds_json(int64_t time) { return shortest(static_cast<double>(time) * 1e-9); }

}  // namespace

std::string nanoseconds_text(int64_t time) { return time_text(static_cast<double>(time) / 1e9); }

std::string share_text(double share) { return format("{} %", std::lround(100 * share)); }

int64_t peak_of(const PictureLane& lane) { return lane.others + lane.peak; }

std::vector<OrderPart> parts_of(const OrderPicture& picture) {
  std::vector<OrderPart> parts;
  const auto add = [&](const std::string& name, int64_t begin, int64_t end) {
    if (begin < end) parts.push_back({name, begin, end});
  };
  add("before", picture.first_begin(), 0);
  add("warm-up", 0, std::min(picture.warm_up_end, picture.drain_begin));
  if (const std::optional<Repetend>& repetend = picture.repetend) {
    add("period", repetend->begin, repetend->begin + repetend->period);
    const int more = repetend->times - 1;
    add(more == 1 ? "once more" : format("{} times more", more), repetend->begin + repetend->period, repetend->end());
  } else {
    add("all ranks", picture.warm_up_end, picture.drain_begin);
  }
  add("drain", std::max(picture.warm_up_end, picture.drain_begin), picture.length);
  add("after", picture.length, picture.last_end());
  return parts;
}

std::string period_text(const OrderPicture& picture) {
  const std::string ends = format("warm-up {}, drain {}", nanoseconds_text(picture.warm_up_end),
                                  nanoseconds_text(std::max<int64_t>(0, picture.length - picture.drain_begin)));
  if (!picture.repetend) return "no period; " + ends;
  return format("period of {}: {}, {}; {}", count_text(picture.repetend->micro_batches, "micro-batch", "micro-batches"),
                nanoseconds_text(picture.repetend->period), count_text(picture.repetend->times, "time", "times"), ends);
}

std::string order_text(const OrderPicture& picture, const std::string& source) {
  std::string text =
      format("order of {} on {}, {}\n", count_text(picture.micro_batches, "micro-batch", "micro-batches"),
             count_text(static_cast<int>(picture.lanes.size()), "rank", "ranks"), source);
  text += format("  {}, bubble {}", nanoseconds_text(picture.length), share_text(picture.bubble()));
  if (picture.least)
    text += *picture.least >= picture.length
                ? "; no order is shorter"
                : format("; no order is shorter than {}, bubble {}", nanoseconds_text(*picture.least),
                         share_text(picture.least_bubble()));
  return text + "\n  " + period_text(picture) + "\n" + picture_text(picture);
}

std::string order_json(const OrderPicture& picture) {
  std::vector<std::string> ranks;
  for (const PictureLane& lane : picture.lanes)
    ranks.push_back(json_object({{"busy", seconds_json(lane.busy)},
                                 {"bubble", shortest(picture.bubble_of(lane))},
                                 {"peak", lane.memory.empty() ? "null" : std::to_string(peak_of(lane))}}));
  const auto& repetend = picture.repetend;
  return json_object({{"micro_batches", std::to_string(picture.micro_batches)},
                      {"seconds", seconds_json(picture.length)},
                      {"bubble", shortest(picture.bubble())},
                      {"least_seconds", picture.least ? seconds_json(*picture.least) : "null"},
                      {"period", repetend ? json_object({{"seconds", seconds_json(repetend->period)},
                                                         {"micro_batches", std::to_string(repetend->micro_batches)},
                                                         {"times", std::to_string(repetend->times)}})
                                          : "null"},
                      {"warm_up", seconds_json(picture.warm_up_end)},
                      {"drain", seconds_json(std::max<int64_t>(0, picture.length - picture.drain_begin))},
                      {"ranks", json_list(ranks)}});
}

}  // namespace weftc
