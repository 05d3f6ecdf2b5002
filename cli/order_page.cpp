// Fills templates/order.html. Boxes are in percent of the width, so that the page zooms without scripts; a rank's
// memory is a shape in a view box that the browser stretches.
#include "cli/order_page.h"

#include <algorithm>

#include "backend/template_text.h"
#include "cli/order_text.h"
#include "cli/page.h"
#include "cli/page_axis.h"
#include "cli/table.h"
#include "cli/timeline_text.h"

namespace weftc {

namespace {

constexpr int kOrderTop = 46, kBoxHeight = 20, kMemoryHeight = 22, kLaneSpace = 10;
constexpr double kNarrowChart = 800;                     // pixels of a chart on a small screen
constexpr double kViewWidth = 10000, kViewHeight = 100;  // of a shape of memory

class Section {
 public:
  Section(const OrderChart& chart, int number)
      : chart_(chart),
        picture_(chart.picture),
        number_(number),
        begin_(picture_.first_begin()),
        length_(std::max<int64_t>(1, picture_.last_end() - begin_)) {
    for (const PictureLane& lane : picture_.lanes) most_ = std::max(most_, lane.peak);
  }

  std::string run() {
    params_.set("title", html_text(chart_.title)).set("source", html_text(chart_.source));
    params_.set("number", std::to_string(number_));
    params_.set("height", std::to_string(height())).set("height_px", format("{}px", height()));
    add_cards();
    add_legend();
    add_parts();
    params_.list("ticks") = time_axis(static_cast<double>(length_) * 1e-9);
    for (const char* list : {"lanes", "boxes", "memory"}) params_.list(list);
    for (size_t rank = 0; rank < picture_.lanes.size(); ++rank) add_lane(rank);
    return render_file("order.html", params_);
  }

 private:
  bool has_memory() const { return most_ > 0; }
  int lane_height() const { return kBoxHeight + (has_memory() ? kMemoryHeight : 0) + kLaneSpace; }
  int top_of(size_t rank) const { return kOrderTop + static_cast<int>(rank) * lane_height(); }
  int height() const { return top_of(picture_.lanes.size()); }
  double share(int64_t time) const { return static_cast<double>(time) / static_cast<double>(length_); }
  std::string width(int64_t time) const { return fixed(100 * share(time), "%.4f%%"); }
  std::string x(int64_t time) const { return width(time - begin_); }

  /// The zoom at which a text has room: "n1", "n4", "n16"; "" if it never has.
  std::string room_for(const std::string& text, int64_t time) const {
    const double pixels = share(time) * kNarrowChart, wanted = 4 + 7 * static_cast<double>(text.size());
    for (const int zoom : {1, 4, 16})
      if (zoom * pixels >= wanted) return format("n{}", zoom);
    return "";
  }

  void card(const std::string& label, const std::string& value, const std::string& more) {
    Params& card = params_.list("cards").emplace_back();
    card.set("label", html_text(label)).set("value", html_text(value)).set("more", html_text(more));
  }

  void add_cards() {
    card("all micro-batches", nanoseconds_text(picture_.length),
         format("{} on {} ranks", picture_.micro_batches, picture_.lanes.size()));
    card("bubble", share_text(picture_.bubble()), "of a rank's time, in the mean");
    if (picture_.least)
      card("bound", nanoseconds_text(*picture_.least),
           *picture_.least >= picture_.length ? "reached: no order is shorter"
                                              : "no order is shorter: bubble " + share_text(picture_.least_bubble()));
    if (const auto& repetend = picture_.repetend)
      card("period", nanoseconds_text(repetend->period),
           format("{} micro-batch{}, {} times", repetend->micro_batches, repetend->micro_batches == 1 ? "" : "es",
                  repetend->times));
    card("warm-up, drain", nanoseconds_text(picture_.warm_up_end),
         "and " + nanoseconds_text(std::max<int64_t>(0, picture_.length - picture_.drain_begin)));
    add_memory_card();
  }

  void add_memory_card() {
    if (!has_memory()) return;
    const auto fullest =
        std::max_element(picture_.lanes.begin(), picture_.lanes.end(),
                         [](const PictureLane& a, const PictureLane& b) { return peak_of(a) < peak_of(b); });
    card("memory at the peak", bytes_text(peak_of(*fullest)),
         format("of rank {}: {} handed between blocks", fullest - picture_.lanes.begin(), bytes_text(fullest->peak)));
  }

  void add_legend() {
    const std::pair<PicturePass, const char*> texts[] = {{PicturePass::Forward, "forward, with its micro-batch"},
                                                         {PicturePass::Backward, "backward"},
                                                         {PicturePass::Weight, "gradients of weights"},
                                                         {PicturePass::Once, "once in a step"}};
    std::vector<Params>& keys = params_.list("keys");
    for (const auto& [pass, text] : texts)
      if (std::any_of(picture_.blocks.begin(), picture_.blocks.end(),
                      [&, pass = pass](const PictureBlock& block) { return block.pass == pass; }))
        keys.emplace_back().set("class", std::string(name_of(pass))).set("text", text);
    params_.set("has_memory", has_memory() ? "yes" : "");
    params_.set("most", bytes_text(most_));
  }

  void add_parts() {
    std::vector<Params>& parts = params_.list("parts");
    for (const OrderPart& part : parts_of(picture_)) {
      const bool is_period = part.name == "period";
      const bool is_end = part.name == "warm-up" || part.name == "drain";
      parts.emplace_back()
          .set("x", x(part.begin))
          .set("width", width(part.end - part.begin))
          .set("class", is_period ? "phase period"
                        : is_end  ? "phase end"
                                  : "phase")
          .set("name", part.name)
          .set("room", room_for(part.name, part.end - part.begin))
          .set("tip", format("{}: {} from {} on", part.name, nanoseconds_text(part.end - part.begin),
                             nanoseconds_text(part.begin - begin_)));
    }
  }

  void add_lane(size_t rank) {
    const PictureLane& lane = picture_.lanes[rank];
    Params& row = params_.list("lanes").emplace_back();
    row.set("top_px", format("{}px", top_of(rank))).set("memory_px", format("{}px", top_of(rank) + kBoxHeight + 2));
    row.set("name", format("rank {}", rank)).set("y", std::to_string(top_of(rank)));
    row.set("waits", lane.busy > 0 ? "waits " + share_text(picture_.bubble_of(lane)) : "");
    row.set("peak", has_memory() ? bytes_text(peak_of(lane)) : "");
    const bool names_stage = picture_.stages_of(lane).size() > 1;
    for (const PictureBox& box : lane.boxes) add_box(box, rank, names_stage);
    if (has_memory()) add_memory(lane, rank);
  }

  void add_box(const PictureBox& box, size_t rank, bool names_stage) {
    const PictureBlock& block = picture_.blocks[as_index(box.block)];
    const std::string number = block.pass == PicturePass::Once ? "" : std::to_string(box.micro_batch);
    const std::string text = names_stage && !number.empty() ? block.stage() + " " + number : number;
    Params& item = params_.list("boxes").emplace_back();
    item.set("x", x(box.begin)).set("width", width(box.end - box.begin)).set("y", std::to_string(top_of(rank)));
    item.set("class", std::string(name_of(block.pass)));
    item.set("room", text.empty() ? "" : room_for(text, box.end - box.begin));
    item.set("number", html_text(text));
    std::string tip = block.name + (number.empty() ? "" : ", micro-batch " + number) + format("\nrank {}: ", rank) +
                      nanoseconds_text(box.end - box.begin) + " from " + nanoseconds_text(box.begin - begin_) + " to " +
                      nanoseconds_text(box.end - begin_);
    if (box.busy < box.end - box.begin) tip += "\nbusy for " + nanoseconds_text(box.busy) + " of that";
    item.set("tip", html_text(tip));
  }

  void add_memory(const PictureLane& lane, size_t rank) {
    const auto x_of = [&](int64_t time) { return fixed(kViewWidth * share(time - begin_), "%.1f"); };
    const auto y_of = [&](int64_t bytes) {
      return fixed(kViewHeight * (1 - static_cast<double>(bytes) / static_cast<double>(most_)), "%.1f");
    };
    std::string shape = "M" + x_of(0) + " " + y_of(0);
    for (const MemoryLevel& level : lane.memory) shape += " H" + x_of(level.at) + " V" + y_of(level.bytes);
    shape += " H" + x_of(picture_.length) + " V" + y_of(0) + " Z";
    params_.list("memory")
        .emplace_back()
        .set("y", std::to_string(top_of(rank) + kBoxHeight + 2))
        .set("shape", shape)
        .set("tip", html_text(format("rank {} holds at most {} that blocks hand to each other, and {} of weights, "
                                     "states and all else",
                                     rank, bytes_text(lane.peak), bytes_text(lane.others))));
  }

  const OrderChart& chart_;
  const OrderPicture& picture_;
  const int number_;
  const int64_t begin_, length_;
  int64_t most_ = 0;  // of what blocks hand to each other, on any rank
  Params params_;
};

}  // namespace

std::string order_section(const OrderChart& chart, int number) { return Section(chart, number).run(); }

std::string order_style() { return std::string(template_text("order.css")); }

}  // namespace weftc
