// Fills templates/plan.html. Bars are in percent of the longest one of their column; the ranks are drawn in pixels.
#include "cli/plan/plan_page.h"

#include <algorithm>
#include <array>

#include "cli/page.h"
#include "cli/plan/layout_plans.h"
#include "cli/table.h"

namespace weftc {

namespace {

constexpr int kMostDrawn = 16;  // ranks in a row, and rows: of more the first ones
constexpr int kCell = 64, kRow = 30, kLabel = 88, kHead = 22;
constexpr int kSlices = 4;  // colours, as the template has them
// Upper bounds of the bins that count ops by their number of ways.
constexpr std::array<int, 7> kBins = {1, 2, 4, 8, 16, 32, 1 << 30};
constexpr int kBin = 38, kColumn = 12, kBinsHeight = 40;

std::string percent(double part, double whole) { return fixed(whole > 0 ? 100 * part / whole : 0, "%.3f%%"); }
std::string share_of(double part, double whole) { return fixed(whole > 0 ? 100 * part / whole : 0, "%.1f %%"); }

class PlanPage {
 public:
  explicit PlanPage(const PlanReport& report) : report_(report), plan_(report.ways.front()) {
    for (const PlanWay& way : report.ways) {
      if (way.time) longest_ = std::max(longest_, way.time->seconds());
      most_ = std::max(most_, way.memory);
    }
  }

  std::string run() {
    params_.set("title", html_text(report_.model))
        .set("level", report_.level)
        .set("machine", html_text(report_.machine));
    params_.set("ranks", std::to_string(report_.ranks)).set("schedule", html_text(report_.schedule));
    for (const char* list : {"cards", "entries", "ways", "exchanges", "searches", "stages"}) params_.list(list);
    params_.set("has_entries", report_.entries.empty() ? "" : "yes");
    add_cards();
    add_stages();
    for (const PlanEntryRow& entry : report_.entries) add_entry(entry);
    for (const PlanWay& way : report_.ways) add_way(way);
    for (const PlanWay& way : report_.ways) add_exchanges(way);
    for (const SearchRow& search : report_.searches) add_search(search);
    return render_page("plan.html", std::move(params_));
  }

 private:
  void card(const std::string& label, const std::string& value, const std::string& more) {
    Params& card = params_.list("cards").emplace_back();
    card.set("label", html_text(label)).set("value", html_text(value)).set("more", html_text(more));
  }

  void add_cards() {
    const double seconds = plan_.time->seconds();
    add_meshes();
    card("predicted", seconds_text(seconds), bound_text());
    card("memory a rank", bytes_text(plan_.memory),
         report_.memory > 0 ? "of " + bytes_text(report_.memory) : "how much there is, is not said");
    add_margin(seconds);
    add_most(*plan_.time);
  }

  void add_meshes() {
    std::vector<std::string> names;
    for (const Mesh& mesh : report_.stages) names.push_back(mesh.empty() ? "one rank" : axes_text(mesh));
    const bool are_alike = std::ranges::count(names, names.front()) == std::ssize(names);
    const std::string more = names.size() > 1 ? format("{} {} stages", are_alike ? "in each of" : "in", names.size())
                                              : std::string("of all ranks");
    card("mesh", are_alike ? names.front() : join(names, ", "), more);
  }

  /// How near the plan is to what no layouts of any mesh take less than; the levels above know no bound.
  std::string bound_text() const {
    if (report_.level != "shard") return "after fusion and overlap";
    for (const SearchRow& search : report_.searches)
      if (search.mesh == axes_text(report_.stages.front()) && search.bound > 0)
        return search.gap < 1e-4 ? "no layouts of this mesh take less"
                                 : format("at most {} above the bound", share_of(search.gap, 1));
    return "a sum over ops and collectives";
  }

  void add_margin(double seconds) {
    const auto second = std::find_if(report_.ways.begin() + 1, report_.ways.end(), [](const PlanWay& way) {
      return !way.is_known && way.time && way.refused.empty();
    });
    if (second == report_.ways.end())
      card("margin", "none", "nothing else of the search can run");
    else
      card("margin", share_of(ratio_of(second->time->seconds(), seconds) - 1, 1),
           (second->is_bound ? "at least, to " : "to the second best: ") + second->name);
  }

  void add_most(const TimeParts& time) {
    const std::pair<double, const char*> parts[] = {{time.computing, "computation"},
                                                    {time.exchanging, "communication"},
                                                    {time.both, "both at once"},
                                                    {time.idle, "waiting"}};
    const auto& most = *std::max_element(std::begin(parts), std::end(parts));
    std::string more = share_of(most.first, time.seconds()) + " of the time";
    const auto& rows = plan_.exchanges;
    const auto longest = std::max_element(
        rows.begin(), rows.end(), [](const ExchangeRow& a, const ExchangeRow& b) { return a.seconds < b.seconds; });
    if (longest != rows.end()) more += format("; most of what is exchanged: {}", longest->what);
    card("takes longest", most.second, more);
  }

  void add_stages() {
    int rank = 0;
    for (size_t stage = 0; stage < report_.stages.size(); ++stage) {
      if (static_cast<int>(stage) < kMostDrawn) add_stage(stage, rank);
      rank += mesh_size(report_.stages[stage]);
    }
  }

  /// The ranks of a stage as a table of squares: the last axis to the right, the others downwards.
  void add_stage(size_t stage, int first) {
    const Mesh& mesh = report_.stages[stage];
    const int left = mesh.size() > 1 ? kLabel : 0;
    const int columns = mesh.empty() ? 1 : mesh.back().size, rows = mesh_size(mesh) / columns;
    const int shown_rows = std::min(rows, kMostDrawn), shown_columns = std::min(columns, kMostDrawn);
    Params& drawn = params_.list("stages").emplace_back();
    drawn.set("name", report_.stages.size() > 1 ? format("stage {}", stage) : "");
    drawn.set("width", std::to_string(left + shown_columns * kCell));
    drawn.set("height", std::to_string(kHead + shown_rows * kRow));
    drawn.set("more", rows > shown_rows || columns > shown_columns
                          ? format("the first {} x {} of {} x {} ranks", shown_rows, shown_columns, rows, columns)
                          : "");
    drawn.list("labels"), drawn.list("ranks");
    for (int c = 0; c < shown_columns && !mesh.empty(); ++c)
      add_label(drawn, left + c * kCell + kCell / 2, 14, "middle", format("{} {}", mesh.back().name, c));
    for (int r = 0; r < shown_rows; ++r) {
      if (mesh.size() > 1) add_label(drawn, kLabel - 8, kHead + r * kRow + 18, "end", row_name(mesh, r));
      for (int c = 0; c < shown_columns; ++c)
        add_rank(drawn, first + r * columns + c, left + c * kCell, kHead + r * kRow, c);
    }
  }

  static std::string row_name(const Mesh& mesh, int row) {
    std::vector<std::string> names;
    for (size_t axis = mesh.size() - 1; axis-- > 0; row /= mesh[axis].size)
      names.insert(names.begin(), format("{} {}", mesh[axis].name, row % mesh[axis].size));
    return join(names, ", ");
  }

  static void add_label(Params& drawn, int x, int y, const char* anchor, const std::string& text) {
    Params& label = drawn.list("labels").emplace_back();
    label.set("x", std::to_string(x)).set("y", std::to_string(y)).set("anchor", anchor).set("text", html_text(text));
  }

  static void add_rank(Params& drawn, int rank, int x, int y, int column) {
    Params& cell = drawn.list("ranks").emplace_back();
    cell.set("x", std::to_string(x + 2)).set("y", std::to_string(y + 2));
    cell.set("text_x", std::to_string(x + kCell / 2)).set("text_y", std::to_string(y + 19));
    cell.set("slice", std::to_string(column % kSlices)).set("rank", std::to_string(rank));
  }

  void add_entry(const PlanEntryRow& entry) {
    Params& row = params_.list("entries").emplace_back();
    row.set("line", html_text(entry.line)).set("values", std::to_string(entry.values));
    row.set("type", html_text(entry.type)).set("layout", html_text(entry.layout));
    row.set("whole", bytes_text(entry.whole)).set("of_rank", bytes_text(entry.of_rank));
    row.set("part", percent(static_cast<double>(entry.of_rank), static_cast<double>(entry.whole)));
    row.set("saves", html_text(entry.saves));
  }

  void add_way(const PlanWay& way) {
    Params& row = params_.list("ways").emplace_back();
    const bool is_plan = &way == &plan_;
    row.set("name", html_text(way.name)).set("class", is_plan ? "plan" : way.is_known ? "known" : "");
    row.set("note", html_text(is_plan        ? "the plan"
                              : way.is_known ? "known"
                                             : ""))
        .set("refused", html_text(way.refused));
    row.set("memory", way.memory > 0 ? bytes_text(way.memory) : "");
    row.set("memory_bar", way.memory > 0 ? percent(static_cast<double>(way.memory), static_cast<double>(most_)) : "");
    row.set("limit", report_.memory > 0 && report_.memory < most_
                         ? percent(static_cast<double>(report_.memory), static_cast<double>(most_))
                         : "");
    row.set("seconds", "").set("ratio", "").list("bars");
    if (!way.time) return;
    const double seconds = way.time->seconds();
    row.set("seconds", (way.is_bound ? "at least " : "") + seconds_text(seconds));
    row.set("ratio", fixed(ratio_of(seconds, plan_.time->seconds()), "%.2f"));
    add_bars(*way.time, way.is_bound, row.list("bars"));
  }

  void add_bars(const TimeParts& time, bool is_bound, std::vector<Params>& bars) const {
    const std::pair<double, const char*> parts[] = {{time.computing, is_bound ? "bound" : "computing"},
                                                    {time.both, "both"},
                                                    {time.exchanging, "exchanging"},
                                                    {time.idle, "idle"}};
    double begin = 0;
    for (const auto& [seconds, kind] : parts) {
      if (seconds <= 0) continue;
      Params& bar = bars.emplace_back();
      bar.set("x", percent(begin, longest_)).set("width", percent(seconds, longest_)).set("class", kind);
      bar.set("tip", format("{}: {}", kind, seconds_text(seconds)));
      begin += seconds;
    }
  }

  void add_exchanges(const PlanWay& way) {
    if (!way.time || way.is_bound) return;
    ExchangeRow all{"nothing"};
    for (const ExchangeRow& row : way.exchanges)
      all.count += row.count, all.bytes += row.bytes, all.seconds += row.seconds;
    if (way.exchanges.size() != 1) {
      if (all.count > 0) all.what = "all";
      add_exchange(&way == &plan_ ? "plan" : "", way.name, all);
    }
    for (const ExchangeRow& row : way.exchanges)
      add_exchange(&way == &plan_ ? "plan" : "", way.exchanges.size() == 1 ? way.name : "", row);
  }

  void add_exchange(const char* kind, const std::string& name, const ExchangeRow& exchange) {
    Params& row = params_.list("exchanges").emplace_back();
    row.set("class", kind).set("name", html_text(name)).set("what", html_text(exchange.what));
    row.set("count", std::to_string(exchange.count)).set("bytes", bytes_text(exchange.bytes));
    row.set("seconds", seconds_text(exchange.seconds));
  }

  void add_search(const SearchRow& search) {
    Params& row = params_.list("searches").emplace_back();
    row.set("mesh", html_text(search.mesh)).set("outcome", html_text(search.outcome)).list("bins");
    const bool is_known = search.ops > 0;
    row.set("ops", is_known ? std::to_string(search.ops) : "");
    row.set("classes", is_known ? std::to_string(search.classes) : "");
    const bool has_bound = search.bound > 0;
    row.set("bound", has_bound ? seconds_text(search.bound) : is_known ? "none was found" : "");
    row.set("gap", has_bound ? share_of(search.gap, 1) : "");
    row.set("seconds", is_known ? fixed(search.seconds, "%.2f s") : "");
    if (is_known) add_bins(search, row.list("bins"));
  }

  static void add_bins(const SearchRow& search, std::vector<Params>& bins) {
    const std::array<int64_t, kBins.size()> before = counts_of(search.ways), after = counts_of(search.ways_left);
    for (size_t b = 0; b < kBins.size(); ++b) {
      const int least = b == 0 ? 1 : kBins[b - 1] + 1;
      const std::string ways = b + 1 == kBins.size() ? format("{}+", least)
                               : least == kBins[b]   ? std::to_string(least)
                                                     : format("{}-{}", least, kBins[b]);
      const auto height = [&](int64_t ops) {
        return kBinsHeight * static_cast<double>(ops) / static_cast<double>(search.ops);
      };
      const int x = static_cast<int>(b) * kBin + 7;
      Params& bin = bins.emplace_back();
      bin.set("x", std::to_string(x)).set("after_x", std::to_string(x + kColumn));
      bin.set("text_x", std::to_string(x + kColumn)).set("ways", ways);
      bin.set("y", fixed(kBinsHeight - height(before[b]), "%.2f")).set("height", fixed(height(before[b]), "%.2f"));
      bin.set("after_y", fixed(kBinsHeight - height(after[b]), "%.2f"));
      bin.set("after_height", fixed(height(after[b]), "%.2f"));
      bin.set("tip", format("{} ways: {} ops, after reduction {}", ways, before[b], after[b]));
    }
  }

  static std::array<int64_t, kBins.size()> counts_of(const std::map<int, int64_t>& ops_by_ways) {
    std::array<int64_t, kBins.size()> counts = {};
    for (const auto& [ways, ops] : ops_by_ways)
      counts[static_cast<size_t>(std::lower_bound(kBins.begin(), kBins.end(), ways) - kBins.begin())] += ops;
    return counts;
  }

  const PlanReport& report_;
  const PlanWay& plan_;
  double longest_ = 0;
  int64_t most_ = 0;
  Params params_;
};

}  // namespace

std::string plan_page(const PlanReport& report) { return PlanPage(report).run(); }

}  // namespace weftc
