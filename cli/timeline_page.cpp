// Fills templates/timeline.html: lanes, boxes and waits in percent of the width, so that the page zooms without
// scripts. Where there are more boxes than a browser likes, small neighbours are merged.
#include "cli/timeline_page.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "cli/layers.h"
#include "cli/page.h"
#include "cli/page_axis.h"
#include "cli/table.h"
#include "cli/timeline_text.h"

namespace weftc {

namespace {

constexpr size_t kMostLanes = 96;
constexpr size_t kMostBoxes = 5000;
constexpr size_t kMostRows = 40;       // of tables
constexpr double kPixels = 16 * 1200;  // of the widest zoom on a common screen
constexpr int kHead = 26, kLane = 22, kGap = 10;

/// One box, or several neighbours of a lane too small to be told apart.
struct PageBox {
  const TimelineBox* first;
  double begin, end;
  int count = 1;
  std::vector<std::string> names;
};

std::string percent(double part, double whole) { return fixed(whole > 0 ? 100 * part / whole : 0, "%.1f %%"); }

/// A lane as tooltips name it.
std::string lane_name(const TimelineLane& lane) { return format("{} of rank {}", lane.stream, lane.rank); }

/// "#2.0 " for "micro-batch 2, chunk 0"; "" for a box that is run once.
std::string turn_text(const std::string& at) {
  std::string out;
  for (size_t i = 0; i < at.size(); ++i)
    if (std::isdigit(static_cast<unsigned char>(at[i])))
      out += at[i];
    else if (!out.empty() && std::isdigit(static_cast<unsigned char>(at[i - 1])))
      out += '.';
  return out.empty() ? "" : "#" + out + " ";
}

std::vector<std::string> step_names(const Timeline& timeline) {
  std::vector<std::string> names;
  for (const TimelineStep& step : timeline.steps) names.push_back(step.name);
  return names;
}

/// Computes the parameters of the template, list by list.
class Page {
 public:
  Page(const Timeline& timeline, const std::vector<OrderChart>& orders)
      : line_(timeline), orders_(orders), labels_(name_ends(step_names(timeline))) {}

  std::string run() {
    params_.set("title", html_text(line_.title)).set("source", html_text(line_.source));
    add_orders();
    choose_lanes();
    add_cards();
    add_lanes();
    for (const char* list : {"ticks", "waits", "boxes", "ranks", "steps"}) params_.list(list);
    params_.set("has_critical", "").set("has_turns", "").set("has_links", "").set("work_title", "");
    if (has_time(line_)) {
      params_.list("ticks") = time_axis(line_.seconds);
      add_waits();
      add_boxes();
      add_ranks();
      add_steps();
    }
    add_notes();
    return render_page("timeline.html", std::move(params_));
  }

 private:
  void add_orders();
  void choose_lanes();
  void add_cards();
  void add_lanes();
  void add_waits();
  void add_boxes();
  void add_ranks();
  void add_steps();
  void add_notes();
  void card(const std::string& label, const std::string& value, const std::string& more);
  std::vector<PageBox> merged(double resolution) const;
  std::string label(const PageBox& drawn) const;
  std::string tip(const PageBox& drawn) const;
  std::string tip_of_many(const PageBox& drawn) const;
  const TimelineStep& step(const TimelineBox& box) const { return line_.steps[static_cast<size_t>(box.step)]; }
  bool is_shown(int lane) const { return top_[static_cast<size_t>(lane)] >= 0; }
  int top(int lane) const { return top_[static_cast<size_t>(lane)]; }
  std::string x(double seconds) const { return fixed(100 * seconds / line_.seconds, "%.4f%%"); }

  const Timeline& line_;
  const std::vector<OrderChart>& orders_;
  const std::vector<std::string> labels_;  // short names of steps, for boxes with little room
  Params params_;
  std::vector<int> top_;  // of a lane, in pixels; -1: not shown
  std::vector<int> lanes_;
  std::string left_out_;
};

/// Adds the order of the pipeline, above its streams.
void Page::add_orders() {
  std::vector<Params>& sections = params_.list("orders");
  for (size_t i = 0; i < orders_.size(); ++i)
    sections.emplace_back().set("section", order_section(orders_[i], static_cast<int>(i)));
  params_.set("order_style", orders_.empty() ? "" : order_style());
}

/// Chooses the lanes to show: all on which something runs, or, if these are too many, those of one rank of each kind.
void Page::choose_lanes() {
  std::vector<bool> busy(line_.lanes.size(), false);
  for (const TimelineBox& box : line_.boxes) busy[static_cast<size_t>(box.lane)] = true;
  for (size_t lane = 0; lane < busy.size(); ++lane)
    if (busy[lane]) lanes_.push_back(static_cast<int>(lane));
  if (lanes_.size() <= kMostLanes) return;
  const size_t all = lanes_.size();
  lanes_.clear();
  for (const RankClass& of : rank_classes(line_))
    if (lanes_.size() + of.lanes.size() <= kMostLanes) lanes_.insert(lanes_.end(), of.lanes.begin(), of.lanes.end());
  left_out_ = format("{} of {} streams are shown: those of the first rank of each kind.", lanes_.size(), all);
}

/// One figure on top of the page.
void Page::card(const std::string& label, const std::string& value, const std::string& more) {
  Params card;
  card.set("label", html_text(label)).set("value", html_text(value)).set("more", html_text(more));
  params_.list("cards").push_back(std::move(card));
}

void Page::add_cards() {
  const std::vector<BusyTimes> ranks = busy_times(line_);
  const BusyTimes mean = mean_times(ranks);
  const size_t streams = lanes_.size();
  card("from begin to end", time_text(line_.seconds),
       format("{} rank{}, {} stream{}", ranks.size(), ranks.size() == 1 ? "" : "s", streams, streams == 1 ? "" : "s"));
  card("computation", time_text(mean.computation), percent(mean.computation, line_.seconds) + " of the time");
  card("communication", time_text(mean.communication), percent(mean.communication, line_.seconds) + " of the time");
  const bool overlaps = std::min(mean.computation, mean.communication) > 0;
  card("hidden", overlaps ? percent(mean.hidden(), 1) : "-",
       time_text(mean.computation + mean.communication - mean.both) + " at the same time");
  card("idle", time_text(line_.seconds - mean.both),
       percent(line_.seconds - mean.both, line_.seconds) + " of the time");
}

/// Adds a row for each stream. Every other rank has a shaded background.
void Page::add_lanes() {
  top_.assign(line_.lanes.size(), -1);
  std::string longest;
  int y = kHead, rank = -1, number = 0;
  for (const int lane : lanes_) {
    const TimelineLane& at = line_.lanes[static_cast<size_t>(lane)];
    const bool is_first = at.rank != rank;
    if (is_first && rank >= 0) y += kGap;
    if (is_first) rank = at.rank, ++number;
    top_[static_cast<size_t>(lane)] = y;
    const std::string name = is_first ? format("rank {}", rank) : "", stream = html_text(shortened(at.stream, 40));
    Params row;
    row.set("top_px", format("{}px", y - 1)).set("rank", name).set("stream", stream);
    params_.list("lanes").push_back(std::move(row));
    if (format("rank {} {}", rank, stream).size() > longest.size()) longest = format("rank {} {}", rank, stream);
    if (number % 2 == 1) {
      Params band;
      band.set("y", std::to_string(y - 2)).set("height", std::to_string(kLane));
      params_.list("bands").push_back(std::move(band));
    }
    y += kLane;
  }
  params_.list("lanes"), params_.list("bands");
  params_.set("longest_name", longest + "MM");
  params_.set("height", std::to_string(y + 8)).set("height_px", format("{}px", y + 8));
}

/// Draws a dashed line while a lane waits, and a line from the box of another lane for which it waited.
void Page::add_waits() {
  std::vector<Params>& waits = params_.list("waits");
  const auto add = [&](const char* type, double from, double to, int y1, int y2) {
    Params line;
    line.set("class", type).set("x1", x(from)).set("x2", x(to));
    line.set("y1", std::to_string(y1)).set("y2", std::to_string(y2));
    waits.push_back(std::move(line));
  };
  std::vector<const TimelineBox*> waiting;
  for (const TimelineBox& box : line_.boxes)
    if (is_shown(box.lane) && box.begin - box.ready > line_.seconds / kPixels) waiting.push_back(&box);
  std::stable_sort(waiting.begin(), waiting.end(), [](const TimelineBox* a, const TimelineBox* b) {
    return a->begin - a->ready > b->begin - b->ready;
  });
  if (waiting.size() > kMostBoxes / 2) waiting.resize(kMostBoxes / 2);
  for (const TimelineBox* box : waiting) {
    add("wait", box->ready, box->begin, top(box->lane) + 9, top(box->lane) + 9);
    if (box->awaited < 0) continue;
    const TimelineBox& other = line_.boxes[static_cast<size_t>(box->awaited)];
    if (!is_shown(other.lane)) continue;
    params_.set("has_links", "yes");
    add("link", other.end, box->begin, top(other.lane) + 9, top(box->lane) + 9);
  }
}

/// Boxes, where neighbours of one kind shorter than `resolution` seconds are one.
std::vector<PageBox> Page::merged(double resolution) const {
  std::vector<PageBox> drawn;
  for (const TimelineBox& box : line_.boxes) {
    if (!is_shown(box.lane)) continue;
    const bool is_small = box.end - box.begin < resolution;
    PageBox* last = drawn.empty() ? nullptr : &drawn.back();
    const bool joins = last && is_small && last->end - last->begin < resolution && last->first->lane == box.lane &&
                       step(*last->first).communicates == step(box).communicates && box.begin - last->end < resolution;
    if (!joins) {
      drawn.push_back({&box, box.begin, box.end, 1, {}});
      continue;
    }
    last->end = std::max(last->end, box.end);
    ++last->count;
    if (last->names.empty()) last->names.push_back(step(*last->first).name);
    if (last->names.size() < 5 && last->names.back() != step(box).name) last->names.push_back(step(box).name);
  }
  return drawn;
}

std::string Page::tip_of_many(const PageBox& drawn) const {
  std::string text =
      format("{} steps: {}{}\n", drawn.count, join(drawn.names, ", "), drawn.names.size() > 4 ? ", ..." : "");
  return text + time_text(drawn.end - drawn.begin) + " from " + time_text(drawn.begin) + " on, " +
         lane_name(line_.lanes[static_cast<size_t>(drawn.first->lane)]);
}

/// The tooltip: the step, its time, nodes and transform, its bound and its waits.
std::string Page::tip(const PageBox& drawn) const {
  if (drawn.count > 1) return tip_of_many(drawn);
  const TimelineBox& box = *drawn.first;
  const TimelineStep& of = step(box);
  std::vector<std::string> rows = {of.name + (box.at.empty() ? "" : " (" + box.at + ")")};
  if (!of.what.empty()) rows.push_back(of.what);
  rows.push_back(time_text(box.end - box.begin) + " from " + time_text(box.begin) + " on, " +
                 lane_name(line_.lanes[static_cast<size_t>(box.lane)]));
  if (!of.nodes.empty()) rows.push_back("nodes: " + shortened(of.nodes, 200));
  if (!of.transform.empty()) rows.push_back(of.transform + (of.where.empty() ? "" : " (" + of.where + ")"));
  if (of.is_counted) rows.push_back(work_text(of.cost.work) + "; bound by " + bound_name(of.cost.bound));
  if (box.begin > box.ready) rows.push_back("waited " + time_text(box.begin - box.ready));
  if (box.awaited >= 0) {
    const TimelineBox& other = line_.boxes[static_cast<size_t>(box.awaited)];
    rows.back() += " for " + step(other).name + ", " + lane_name(line_.lanes[static_cast<size_t>(other.lane)]);
  }
  return join(rows, "\n");
}

std::string Page::label(const PageBox& drawn) const {
  if (drawn.count > 1) return format("{} steps", drawn.count);
  return turn_text(drawn.first->at) + labels_[static_cast<size_t>(drawn.first->step)];
}

/// Boxes with a class for colour, a name if it fits, and a tooltip.
void Page::add_boxes() {
  std::vector<Params>& boxes = params_.list("boxes");
  double resolution = line_.seconds / kPixels;
  std::vector<PageBox> drawn = merged(resolution);
  while (drawn.size() > kMostBoxes) drawn = merged(resolution *= 2);
  bool has_critical = false, has_turns = false;
  for (const PageBox& one : drawn) {
    const TimelineBox& box = *one.first;
    const std::string kind = step(box).communicates ? "m" : "c";
    const bool has_name = one.end - one.begin > line_.seconds / 600;
    const bool critical = box.critical && one.count == 1;
    has_critical |= critical;
    has_turns |= !box.at.empty();
    Params item;
    item.set("x", x(one.begin)).set("width", x(std::max(one.end - one.begin, line_.seconds / kPixels)));
    item.set("y", std::to_string(top(box.lane))).set("foot", std::to_string(top(box.lane) + 15));
    item.set("class", format("box {}{}{}", kind, box.step % (kind == "m" ? 2 : 4), has_name ? " wide-box" : ""));
    item.set("critical", critical ? "yes" : "");
    item.set("name", has_name ? html_text(label(one)) : "");
    item.set("tip", html_text(tip(one)));
    boxes.push_back(std::move(item));
  }
  params_.set("has_critical", has_critical ? "yes" : "").set("has_turns", has_turns ? "yes" : "");
}

void Page::add_ranks() {
  std::vector<Params>& rows = params_.list("ranks");
  const std::vector<BusyTimes> ranks = busy_times(line_);
  for (size_t rank = 0; rank < std::min(ranks.size(), kMostRows); ++rank) {
    const BusyTimes& t = ranks[rank];
    const auto share = [&](double seconds) { return fixed(100 * seconds / line_.seconds, "%.2f%%"); };
    Params row;
    row.set("name", std::to_string(rank));
    row.set("alone", share(t.both - t.communication)).set("exchange", share(t.both - t.computation));
    row.set("overlap", share(t.computation + t.communication - t.both));
    row.set("computation", time_text(t.computation)).set("communication", time_text(t.communication));
    row.set("hidden", std::min(t.computation, t.communication) > 0 ? percent(t.hidden(), 1) : "-");
    row.set("idle", time_text(line_.seconds - t.both));
    rows.push_back(std::move(row));
  }
}

void Page::add_steps() {
  std::vector<Params>& rows = params_.list("steps");
  const std::vector<StepTotal> totals = step_totals(line_);
  params_.set("work_title", !line_.steps.empty() && line_.steps[0].is_counted ? "work of one run, what bounds it" : "");
  for (size_t i = 0; i < std::min(totals.size(), kMostRows); ++i) {
    const TimelineStep& of = line_.steps[static_cast<size_t>(totals[i].step)];
    Params row;
    row.set("color", of.communicates ? "--exchange-0" : "--compute-0");
    row.set("name", html_text(of.name))
        .set("what", html_text(of.what))
        .set("nodes", html_text(shortened(of.nodes, 300)));
    row.set("transform", html_text(of.transform + (of.where.empty() ? "" : " (" + of.where + ")")));
    row.set("runs", std::to_string(totals[i].runs)).set("time", time_text(totals[i].seconds));
    row.set("share", percent(totals[i].seconds, line_.seconds));
    row.set("work", of.is_counted ? html_text(work_text(of.cost.work)) : "");
    row.set("bound", of.is_counted ? std::string("bound by ") + bound_name(of.cost.bound) : "");
    rows.push_back(std::move(row));
  }
}

/// Adds notes: the meaning of the figures, and what was left out.
void Page::add_notes() {
  std::vector<std::string> notes = line_.notes;
  if (!left_out_.empty()) notes.push_back(left_out_);
  notes.push_back(
      "Computation is the time in which some stream of a rank computes, communication that in which some stream "
      "communicates, each moment counted once; the figures on top are means over the ranks. Hidden is "
      "(communication + computation - either) / the shorter of the two: the share of it that runs while the other "
      "does.");
  notes.push_back(
      "A box says in its tooltip which step it is, of which nodes of the model and by which line of the schedule. "
      "Neighbours too small to be seen are one box.");
  for (const std::string& note : notes) {
    Params row;
    row.set("text", html_text(note));
    params_.list("notes").push_back(std::move(row));
  }
}

}  // namespace

std::string timeline_page(const Timeline& timeline, const std::vector<OrderChart>& orders) {
  return Page(timeline, orders).run();
}

}  // namespace weftc
