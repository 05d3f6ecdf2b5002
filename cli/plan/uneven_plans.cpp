// Cells of nodes in a line, their costs on numbers of ranks, and the cuts of the line, all by the sums that also choose
// layouts. The best few cuts become schedules.
#include "cli/plan/uneven_plans.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "cli/compilation.h"
#include "cli/plan/place_layouts.h"
#include "cli/plan/stage_layouts.h"
#include "cli/plan/stage_nodes.h"
#include "frontend/schedule_writer.h"
#include "passes/cost/machine.h"
#include "passes/prepare/stages.h"
#include "passes/sharding/cell_costs.h"
#include "passes/transform/transforms.h"

namespace weftc {

namespace {

// A cut is compiled only if its estimated time is below this fraction of the time of even stages.
constexpr double kWorthTrying = 0.98;
constexpr size_t kMostCuts = 3;
// The number of stretches of similar time into which a model is divided before all cuts are compared.
constexpr int kStretches = 32;
constexpr int kMostMicroBatches = 64;
// Up to this many ranks, numbers that do not divide them are tried too.
constexpr int kFewRanks = 16;

/// The possible numbers of ranks of a place: powers of two, the ranks that these leave, and divisors of all.
std::vector<int> place_sizes(int ranks) {
  std::set<int> sizes;
  for (int size = 1; size <= ranks; ++size) {
    const bool is_power = (size & (size - 1)) == 0;
    if (ranks % size == 0 || is_power) sizes.insert(size);
    if (is_power && size < ranks && ranks <= kFewRanks) sizes.insert(ranks - size);
  }
  return {sizes.begin(), sizes.end()};
}

/// Seconds that a byte takes from a rank to the next one.
double link_seconds(const Machine& machine, int rank) {
  constexpr int64_t kBytes = int64_t{1} << 24;
  return collective_seconds(machine, OpKind::Transfer, kBytes, kBytes, group_of(machine, {rank - 1, rank})) / kBytes;
}

class UnevenSearch {
 public:
  UnevenSearch(const PlanRequest& request, const LayoutsOn& layouts_on, Compilation& c)
      : request_(request),
        layouts_on_(layouts_on),
        c_(c),
        schedule_(c.schedule),
        micro_batches_(micro_batch_counts(c.module, 1)) {
    schedule_.pipeline.emplace().cuts = true;
    Diags unreported;
    cells_ = Stages(c.module, schedule_, c.target, unreported).find_cells();
    join_cells();
  }

  std::vector<UnevenPlan> run() {
    if (cells_.line.size() < 2 || micro_batches_.empty()) return {};
    std::vector<UnevenPlan> found = plans(0);
    const int64_t memory = request_.machine.memory;
    // Where weights are too large for any stages, layouts in which ranks have a part of them.
    return found.empty() && memory > 0 ? plans(memory) : found;
  }

 private:
  struct Cut {
    PlacedStages placed;
    double ratio = 1;  // to even stages, with the micro-batches that suit it most
    std::vector<int> promising;
  };

  /// A model of many nodes becomes a line of fewer cells.
  void join_cells() {
    const std::vector<int> stretch_of = join_short_items(cells_.line, kStretches);
    std::vector<LineItem> line;
    for (size_t i = 0; i < stretch_of.size(); ++i) {
      if (static_cast<size_t>(stretch_of[i]) == line.size()) line.emplace_back();
      line.back().time += cells_.line[i].time;
      line.back().after = cells_.line[i].after;
    }
    for (int& cell : cells_.cell_of)
      if (cell >= 0) cell = stretch_of[static_cast<size_t>(cell)];
    cells_.line = std::move(line);
  }

  /// The costs of cells on this number of ranks; null if there are no layouts.
  const CellCosts* costs_on(int ranks, int64_t memory) {
    const auto [known, is_new] = costs_.try_emplace({ranks, memory});
    const ShardingPlan* plan = is_new ? layouts_on(ranks, memory) : nullptr;
    if (plan)
      known->second = cell_costs(c_.module, with_plan(c_.schedule, *plan), c_.target, request_.machine, cells_.cell_of,
                                 cells_.line.size());
    return known->second.seconds.empty() ? nullptr : &known->second;
  }

  const ShardingPlan* layouts_on(int ranks, int64_t memory) const {
    return layouts_on_(ranks, memory * request_.ranks / ranks);
  }

  /// Places of sizes that are not settled take no less than this: the part of each rank.
  static PlaceChoice least_on(int ranks, const CellCosts& on_one) {
    PlaceChoice least{ranks, on_one.seconds, on_one.bytes};
    for (double& seconds : least.seconds) seconds /= ranks;
    for (int64_t& bytes : least.bytes) bytes /= ranks;
    return least;
  }

  PlacedLine line_for(const std::set<int>& settled, int64_t memory) {
    PlacedLine line;
    line.ranks = request_.ranks, line.memory = request_.machine.memory;
    for (const int size : place_sizes(request_.ranks)) {
      const bool is_settled = settled.contains(size);
      const CellCosts* costs = costs_on(is_settled ? size : 1, memory);
      if (costs && is_settled) line.choices.push_back({size, costs->seconds, costs->bytes});
      if (costs && !is_settled) line.choices.push_back(least_on(size, *costs));
    }
    line.values = values();
    for (int rank = 0; rank < request_.ranks; ++rank)
      line.link.push_back(rank == 0 ? 0 : link_seconds(request_.machine, rank));
    return line;
  }

  /// The values that cells read from each other: values of the forward pass, and gradients.
  std::vector<CellValue> values() const {
    const Graph& graph = c_.module.graph;
    std::map<ValueId, std::set<int>> readers;
    for (const OpId id : graph.order())
      for (const ValueId v : graph.op(id).inputs) {
        const int from = v ? cells_.cell_of[graph.producer(v).index] : -1, to = cells_.cell_of[id.index];
        if (from >= 0 && to >= 0 && from != to) readers[v].insert(to);
      }
    std::vector<CellValue> values;
    for (const auto& [value, cells] : readers)
      values.push_back({cells_.cell_of[graph.producer(value).index],
                        {cells.begin(), cells.end()},
                        local_bytes(graph.type(value), {})});
    return values;
  }

  /// Layouts on numbers of ranks that do not divide all ranks are computed only if a lower bound of their time gives a
  /// promising cut.
  std::vector<UnevenPlan> plans(int64_t memory) {
    std::set<int> settled;
    for (const int size : place_sizes(request_.ranks))
      if (request_.ranks % size == 0) settled.insert(size);
    for (;;) {
      const std::vector<Cut> cuts = promising_cuts(line_for(settled, memory));
      const size_t before = settled.size();
      for (size_t c = 0; c < std::min(cuts.size(), kMostCuts); ++c)
        for (const PlacedStage& stage : cuts[c].placed.stages) settled.insert(stage.ranks);
      if (settled.size() == before) return plans_of(cuts, memory);
    }
  }

  std::vector<Cut> promising_cuts(const PlacedLine& line) const {
    const std::vector<PlacedStages> even = place_even_stages(line);
    std::vector<Cut> cuts;
    for (PlacedStages& placed : place_stages(line))
      if (!placed.are_even()) add(std::move(placed), even, cuts);
    std::ranges::stable_sort(cuts, {}, &Cut::ratio);
    return cuts;
  }

  std::vector<UnevenPlan> plans_of(const std::vector<Cut>& cuts, int64_t memory) const {
    std::vector<UnevenPlan> found;
    for (size_t c = 0; c < std::min(cuts.size(), kMostCuts); ++c) found.push_back(plan_of(cuts[c], memory));
    return found;
  }

  static std::vector<int> ranks_of(const PlacedStages& placed) {
    std::vector<int> ranks;
    for (const PlacedStage& stage : placed.stages) ranks.push_back(stage.ranks);
    return ranks;
  }

  /// Keeps the best cut for each assignment of ranks. If memory suffices for no even stages, every cut is promising.
  void add(PlacedStages placed, const std::vector<PlacedStages>& even, std::vector<Cut>& cuts) const {
    Cut made{std::move(placed), std::numeric_limits<double>::infinity(), {}};
    for (const int count : micro_batches_) {
      const double seconds = made.placed.seconds(count);
      double ratio = even.empty() ? seconds : 0;
      for (const PlacedStages& other : even) ratio = std::max(ratio, ratio_of(seconds, other.seconds(count)));
      if (even.empty() || ratio < kWorthTrying) made.promising.push_back(count);
      made.ratio = std::min(made.ratio, ratio);
    }
    if (made.promising.empty()) return;
    const auto known =
        std::ranges::find_if(cuts, [&](const Cut& other) { return ranks_of(other.placed) == ranks_of(made.placed); });
    if (known == cuts.end())
      cuts.push_back(std::move(made));
    else if (made.ratio < known->ratio)
      *known = std::move(made);
  }

  std::vector<int> stage_of_cells(const PlacedStages& placed) const {
    std::vector<int> stage_of(cells_.line.size(), 0);
    for (size_t s = 0; s < placed.stages.size(); ++s)
      std::fill(stage_of.begin() + placed.stages[s].begin, stage_of.begin() + placed.stages[s].end,
                static_cast<int>(s));
    return stage_of;
  }

  /// The layouts of places by their numbers of ranks.
  std::map<int, ShardingPlan> layouts_of(const Cut& cut, int64_t memory) const {
    const StageLayouts stage_layouts(c_, cells_, stage_of_cells(cut.placed));
    std::map<int, std::set<int>> places;  // stages
    for (size_t s = 0; s < cut.placed.stages.size(); ++s)
      places[cut.placed.stages[s].ranks].insert(static_cast<int>(s));
    std::map<int, ShardingPlan> plans;
    for (const auto& [ranks, stages] : places)
      plans.emplace(ranks, stage_layouts.of(stages, *layouts_on(ranks, memory)));
    return plans;
  }

  static std::string text_of(const PlacedStages& placed) {
    std::vector<std::string> sizes;
    for (const int ranks : ranks_of(placed)) sizes.push_back(std::to_string(ranks));
    return format("stages on {} ranks", join(sizes, ", "));
  }

  UnevenPlan plan_of(const Cut& cut, int64_t memory) const {
    UnevenPlan made;
    made.what = text_of(cut.placed), made.placed = cut.placed, made.promising = cut.promising;
    const std::optional<std::vector<StageRequest>> requests =
        stage_requests(c_.module, schedule_, cells_, stage_of_cells(cut.placed));
    if (!requests) {
      made.refused = "names of nodes do not tell these stages apart";
      return made;
    }
    const std::map<int, ShardingPlan> own = layouts_of(cut, memory);
    std::vector<const ShardingPlan*> plans;
    for (const PlacedStage& stage : cut.placed.stages) plans.push_back(&own.at(stage.ranks));
    const PlaceLayouts layouts = join_layouts(plans);
    made.layouts = own.rbegin()->second;
    write(layouts.entries, made);
    write(*requests, layouts.meshes, made);
    return made;
  }

  void write(const std::vector<PlannedEntry>& planned_entries, UnevenPlan& made) const {
    std::vector<ShardEntry> entries;
    std::vector<std::string> comments;
    for (const PlannedEntry& planned : planned_entries) {
      entries.push_back(planned.entry);
      comments.push_back(saves_text(planned));
    }
    Diags refused;
    const std::optional<std::string> text = with_shard(request_.file, request_.kept, entries, refused, comments);
    if (!text) made.refused = "[" + refused.all().front().id + "]";
    made.text = text.value_or("");
  }

  static void write(const std::vector<StageRequest>& requests, const std::vector<Mesh>& meshes, UnevenPlan& made) {
    made.places = "places:", made.stages = "stages:", made.meshes = meshes;
    for (Mesh& mesh : made.meshes) std::erase_if(mesh, [](const MeshAxis& axis) { return axis.size == 1; });
    int rank = 0;
    for (size_t s = 0; s < requests.size(); ++s) {
      PlaceRequest place{requests[s].name, {}, meshes[s], {}};
      for (int r = 0; r < made.placed.stages[s].ranks; ++r) place.ranks.push_back(rank++);
      made.places += "\n  " + place_text(place);
      made.stages += "\n    " + stage_text(requests[s]);
    }
  }

  const PlanRequest& request_;
  const LayoutsOn& layouts_on_;
  Compilation& c_;
  Schedule schedule_;  // asks for stages
  StageCells cells_;
  const std::vector<int> micro_batches_;
  std::map<std::pair<int, int64_t>, CellCosts> costs_;  // by ranks and memory
};

}  // namespace

std::vector<int> micro_batch_counts(const Module& module, int least) {
  constexpr double kApart = 1.25;
  std::vector<int> counts;
  for (int count = least; count <= std::max(least, kMostMicroBatches); ++count)
    if ((counts.empty() || count >= kApart * counts.back()) && !batch_seeds(module, count).empty())
      counts.push_back(count);
  return counts;
}

std::vector<UnevenPlan> plan_uneven_stages(Compilation& c, const PlanRequest& request, const LayoutsOn& layouts_on) {
  constexpr int kLeastRanks = 3;  // two are one and one
  return request.ranks < kLeastRanks ? std::vector<UnevenPlan>() : UnevenSearch(request, layouts_on, c).run();
}

}  // namespace weftc
