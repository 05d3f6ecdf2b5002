#include "passes/sharding/plan_sharding.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <tuple>

#include "ir/exchange_types.h"
#include "ir/op_def.h"
#include "passes/cost/machine.h"
#include "passes/layout/layout_trial.h"
#include "passes/partition/solve.h"
#include "passes/sharding/axis_search.h"
#include "passes/sharding/known_layouts.h"
#include "passes/sharding/layer_excerpt.h"
#include "passes/sharding/value_peak.h"

namespace weftc {

namespace {

constexpr double kPicoseconds = 1e12;
// As a part of the time: a plan so near to the bound counts as the best one.
constexpr double kNearlyBest = 1e-4;
// As a part of the time: an excerpt of the layers so near to the whole graph stands for it.
constexpr double kLikeWhole = 1e-3;
// Work of a search of several axes at once: a problem as narrow as one axis is proved within it.
constexpr double kNarrow = 1e8;

/// Measures the graph of a trial.
void measure(const Module& module, const Graph& graph, const Machine& machine, const ExchangeSeconds& exchange,
             ShardingPlan& plan) {
  plan.seconds = static_cast<double>(laid_out_cost(module, graph, machine.ceilings, exchange)) / kPicoseconds;
  std::map<std::pair<OpKind, std::vector<int>>, ExchangeSum> sums;
  for (const OpId id : graph.order()) {
    const Op& op = graph.op(id);
    if (!is_exchange(op)) continue;
    const int64_t before = local_bytes(graph.type(op.inputs[0]), plan.mesh);
    const int64_t after = local_bytes(graph.type(op.outputs[0]), plan.mesh);
    ExchangeSum& sum = sums[{op.kind, axes_of(op)}];
    ++sum.count;
    sum.bytes += bytes_sent(op.kind, before, after, group_size(op, plan.mesh));
    sum.seconds += exchange(op.kind, before, after, axes_of(op));
  }
  for (auto& [key, sum] : sums) {
    std::tie(sum.kind, sum.axes) = key;
    plan.exchanges.push_back(std::move(sum));
  }
}

/// Layouts of least cost, and a lower bound for all layouts.
struct Solved {
  ChosenLayouts layouts;
  double seconds = 0, bound = 0;
  SearchSize size;
  bool is_by_axes = false;  // all axes at once were too much
};

/// Before entries are sought, which takes longest. `folded`: the same op of all layers is one choice.
struct SolvedMesh {
  Mesh mesh;
  std::optional<Solved> folded, each;
  double seconds = 0;
  double bound() const { return each ? each->bound : folded ? folded->bound : 0; }
  SearchSize size() const {
    SearchSize size = (each ? each : folded)->size;
    if (folded) size.classes = folded->size.classes;
    size.seconds = seconds;
    return size;
  }
};

class Watch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin_ = Clock::now();
};

/// Plans by time; of plans with equal time, the one on fewer axes is better.
std::pair<int64_t, size_t> rank_of_plan(const ShardingPlan& plan) {
  constexpr double kNothing = 1 / kPicoseconds;  // of a model that computes nothing
  return {std::llround(std::log(std::max(plan.seconds, kNothing)) / kNearlyBest), plan.mesh.size()};
}

bool is_nearly_best(const PartitionSolution& solution) {
  const auto cost = static_cast<double>(solution.cost);
  return !solution.choices.empty() && cost - static_cast<double>(solution.lower_bound) <= kNearlyBest * cost;
}

void take_better(const PartitionProblem& problem, std::vector<int> choices, PartitionSolution& solution) {
  if (choices.empty()) return;
  const int64_t cost = cost_of(problem, choices);
  if (!solution.choices.empty() && cost >= solution.cost) return;
  solution.choices = std::move(choices), solution.cost = cost;
}

ShardingPlan bound_of(const SolvedMesh& solved) {
  ShardingPlan plan;
  plan.mesh = solved.mesh;
  plan.seconds = plan.bound = solved.bound();
  plan.is_bound = true;
  plan.search = solved.size();
  return plan;
}

class Planner {
 public:
  Planner(Module& module, const Schedule& schedule, const Target& target, const Machine& machine,
          const PlanLimits& limits)
      : module_(module),
        schedule_(schedule),
        kept_(module, schedule_),
        classes_(module.graph, &kept_),
        excerpt_(LayerExcerpt::of(module, classes_)),
        target_(target),
        machine_(machine),
        limits_(limits) {}

  SolvedMesh solve(const Mesh& mesh) {
    const Watch watch;
    take(mesh);
    SolvedMesh solved{mesh, solve(false, machine_.memory), {}};
    const bool is_small = module_.graph.op_count() <= limits_.most_ops;
    if (is_small && !(solved.folded && solved.folded->is_by_axes)) solved.each = solve(true, machine_.memory);
    solved.seconds = watch.seconds();
    return solved;
  }

  /// The same op of all layers is one choice, unless different layers are faster by more than a little: of plans with
  /// equal time, the one with few lines is better. Many lines of many ops take long to try, and have to gain more.
  std::optional<ShardingPlan> plan(SolvedMesh solved) {
    constexpr size_t kManyOps = 1000;
    const double much = module_.graph.op_count() > kManyOps ? 0.95 : 0.99;
    const Watch watch;
    SearchSize size = solved.size();
    take(solved.mesh);
    const double bound = solved.bound();
    std::optional<ShardingPlan> best, each;
    if (solved.folded) best = with_entries(std::move(*solved.folded), false);
    if (solved.each && (!best || solved.each->seconds < much * best->seconds))
      each = with_entries(std::move(*solved.each), true);
    if (each && (!best || each->seconds < much * best->seconds)) best = std::move(each);
    size.seconds += watch.seconds();
    if (best) best->bound = bound, best->search = std::move(size);
    return best;
  }

  /// Notes the savings and shares of a plan's entries.
  void explain(ShardingPlan& plan) {
    take(plan.mesh);
    const auto add = [&](EntrySearch& search) { search.add_savings(plan.entries); };
    excerpt_ && excerpt_->has(plan.entries) ? in_excerpt(add) : in_whole(add);
    Diags laid_out_before;
    const Schedule schedule = schedule_with(plan.entries);
    add_shares(module_, schedule, try_layouts(module_, {schedule, target_, laid_out_before}), plan.entries);
  }

  /// A plan of well-known layouts: with entries alone, or with free choices around the values that they slice.
  KnownPlan plan(const KnownLayouts& known, const Mesh& mesh) {
    take(mesh);
    KnownPlan made{known.name, {}, known.missing};
    if (!known.missing.empty()) return made;
    for (const ValueId value : known.sliced) kept_.demand_slices(value);
    classes_ = LayerClasses(module_.graph, &kept_);
    excerpt_ = LayerExcerpt::of(module_, classes_);
    Diags refused;
    if (known.sliced.empty())
      made.plan = finish(plan_of(known.entries), refused);
    else
      made.plan = best_around_demands(mesh);
    if (!refused.ok())
      made.missing = "[" + refused.all().front().id + "]";
    else if (!made.plan || (machine_.memory > 0 && made.plan->peak > machine_.memory))
      made.missing = "too little memory";
    return made;
  }

  MemoryNeed least_memory(const Mesh& mesh) {
    take(mesh);
    return problem(false, machine_.memory).least_memory();
  }

  /// All ranks do the same.
  std::optional<ShardingPlan> without_entries(const Mesh& mesh) {
    take(mesh);
    Diags refused;
    return finish(plan_of({}), refused);
  }

  const KeptLayouts& kept() const { return kept_; }

 private:
  ShardingProblem problem(bool is_each, int64_t memory) const {
    return {module_,
            is_each ? LayerClasses::of_one(module_.graph) : classes_,
            kept_,
            machine_.ceilings,
            exchange_seconds_on(machine_, schedule_.mesh),
            memory > 0 ? std::optional(memory) : std::nullopt};
  }

  std::optional<Solved> solve(bool is_each, int64_t memory) {
    const ShardingProblem problem = this->problem(is_each, memory);
    PartitionEffort effort;
    effort.search.work = problem.axes() > 1 ? kNarrow : limits_.work, effort.search.gap = kNearlyBest;
    PartitionSolution solution = solve_partition(problem.problem(), effort);
    const bool is_by_axes = problem.axes() > 1 && !is_nearly_best(solution);
    if (is_by_axes) take_better(problem.problem(), search_by_axes(problem, effort), solution);
    if (solution.choices.empty()) return {};
    const double unit = problem.unit() / kPicoseconds;
    return Solved{problem.chosen(solution.choices), static_cast<double>(solution.cost) * unit,
                  static_cast<double>(solution.lower_bound) * unit, problem.size(solution), is_by_axes};
  }

  /// The problem counts memory at one time only, without buffers of collectives. If a plan takes more than there is, it
  /// is made again with the limit lowered by the excess.
  std::optional<ShardingPlan> with_entries(Solved solved, bool is_each) {
    constexpr int kMostTries = 6;
    int64_t memory = machine_.memory;
    for (int tries = 1;; ++tries) {
      std::optional<ShardingPlan> made = with_entries(std::move(solved.layouts), is_each);
      if (!made || machine_.memory == 0 || made->peak <= machine_.memory) return made;
      memory -= made->peak - machine_.memory;
      if (tries == kMostTries || memory <= 0) return {};
      std::optional<Solved> smaller = solve(is_each, memory);
      if (!smaller) return {};
      solved = std::move(*smaller);
    }
  }

  std::optional<ShardingPlan> with_entries(ChosenLayouts layouts, bool is_each) {
    std::optional<ShardingPlan> made = is_each ? std::nullopt : by_excerpt(layouts);
    return made ? made : by_whole(std::move(layouts));
  }

  std::optional<ShardingPlan> by_whole(ChosenLayouts layouts) {
    ShardingPlan made = plan_of({});
    in_whole([&](EntrySearch& search) { made.entries = search.find(std::move(layouts)); });
    Diags refused;
    return finish(std::move(made), refused);
  }

  /// If memory is too small, the layouts that would be best without the limit.
  std::optional<ShardingPlan> best_around_demands(const Mesh& mesh) {
    SolvedMesh solved = solve(mesh);
    std::optional<ShardingPlan> made = solved.folded || solved.each ? plan(std::move(solved)) : std::nullopt;
    if (made || machine_.memory == 0) return made;
    std::optional<Solved> larger = solve(false, 0);
    return larger ? with_entries(std::move(larger->layouts), false) : std::nullopt;
  }

  ShardingPlan plan_of(const std::vector<ShardEntry>& entries) const {
    ShardingPlan plan;
    plan.mesh = schedule_.mesh;
    for (const ShardEntry& entry : entries) plan.entries.push_back({entry});
    return plan;
  }

  /// With entries that were tried on an excerpt of the layers; nothing without an excerpt, or where its cost is not
  /// that of the whole graph.
  std::optional<ShardingPlan> by_excerpt(const ChosenLayouts& layouts) {
    if (!excerpt_) return {};
    ShardingPlan made = plan_of({});
    std::optional<int64_t> expected;
    in_excerpt([&](EntrySearch& search) {
      made.entries = search.find(excerpt_->part_of(layouts));
      expected = search.cost();
    });
    made.entries = excerpt_->for_whole(made.entries);
    Diags refused;
    std::optional<ShardingPlan> whole = finish(std::move(made), refused);
    if (!whole || !expected) return {};
    const bool fits = machine_.memory == 0 || whole->peak <= machine_.memory;
    const double difference = std::abs(static_cast<double>(*expected) / kPicoseconds - whole->seconds);
    const bool is_alike = fits ? difference <= kLikeWhole * whole->seconds : *expected >= kCannotRun;
    return is_alike ? std::move(whole) : std::nullopt;
  }

  using Work = std::function<void(EntrySearch&)>;

  void in_whole(const Work& work) { search_entries(LayerClasses(module_.graph), kept_, {}, work); }

  void in_excerpt(const Work& work) {
    LayerClasses classes = excerpt_->classes();
    const ModuleOfExcerpt is_part(module_, *excerpt_);
    const KeptLayouts kept(module_, schedule_);
    search_entries(
        std::move(classes), kept, [this](const Graph& graph) { return excerpt_->copies(graph); }, work);
  }

  using CopiesOf = std::function<LayerCopies(const Graph&)>;

  void search_entries(LayerClasses classes, const KeptLayouts& kept, const CopiesOf& copies_of, const Work& work) {
    const ExchangeSeconds exchange = exchange_seconds_on(machine_, schedule_.mesh);
    EntrySearch search(module_, std::move(classes), schedule_, kept, target_, [&](const Graph& graph) {
      const LayerCopies copies = copies_of ? copies_of(graph) : LayerCopies();
      return laid_out_cost(module_, graph, machine_.ceilings, exchange, copies) + lacking(graph, copies);
    });
    work(search);
  }

  /// Bytes that a graph takes and a rank does not have, as a cost: more than any time, so that no entry is dropped that
  /// makes it fit.
  int64_t lacking(const Graph& graph, const LayerCopies& copies) const {
    if (machine_.memory == 0) return 0;
    const int64_t bytes = value_peak(module_, graph, copies).bytes - machine_.memory;
    return bytes > 0 ? kCannotRun + bytes : 0;
  }

  void take(const Mesh& mesh) {
    module_.places.front().mesh = mesh;
    schedule_.mesh = mesh;
  }

  Schedule schedule_with(const std::vector<PlannedEntry>& entries) const {
    Schedule schedule = schedule_;
    for (const PlannedEntry& planned : entries) schedule.shard.push_back(planned.entry);
    return schedule;
  }

  std::optional<ShardingPlan> finish(ShardingPlan plan, Diags& refused) {
    const LayoutTrial trial = try_layouts(module_, {schedule_with(plan.entries), target_, refused});
    if (!refused.ok()) return {};
    measure(module_, trial.graph, machine_, exchange_seconds_on(machine_, plan.mesh), plan);
    plan.peak = value_peak(module_, trial.graph).bytes;
    return plan;
  }

  Module& module_;
  Schedule schedule_;
  KeptLayouts kept_;
  LayerClasses classes_;
  std::optional<LayerExcerpt> excerpt_;
  const Target& target_;
  const Machine& machine_;
  const PlanLimits limits_;
};

}  // namespace

double ShardingPlan::exchanging() const {
  double seconds = 0;
  for (const ExchangeSum& sum : exchanges) seconds += sum.seconds;
  return seconds;
}

int64_t ShardingPlan::collectives() const {
  int64_t count = 0;
  for (const ExchangeSum& sum : exchanges) count += sum.count;
  return count;
}

std::vector<Mesh> meshes_of(int ranks) {
  std::vector<Mesh> meshes = {{{"x", ranks}}};
  for (int outer = 2; outer < ranks; ++outer)
    if (ranks % outer == 0 && ranks / outer > 1) meshes.push_back({{"x", outer}, {"y", ranks / outer}});
  return meshes;
}

namespace {

std::vector<Mesh> meshes_for(const PlanLimits& limits) {
  return limits.mesh ? std::vector<Mesh>{*limits.mesh} : meshes_of(limits.ranks);
}

}  // namespace

std::vector<ShardingPlan> plan_sharding(Module& module, const Schedule& schedule, const Target& target,
                                        const Machine& machine, const PlanLimits& limits) {
  const Mesh before = module.places.front().mesh;
  Planner planner(module, schedule, target, machine, limits);
  std::vector<SolvedMesh> meshes;
  const std::vector<Mesh> all = meshes_for(limits);
  for (const Mesh& mesh : all)
    if (SolvedMesh solved = planner.solve(mesh); solved.folded || solved.each) meshes.push_back(std::move(solved));
  std::stable_sort(meshes.begin(), meshes.end(), [](const auto& a, const auto& b) { return a.bound() < b.bound(); });
  std::vector<ShardingPlan> plans;
  const auto add = [&](std::optional<ShardingPlan> plan) {
    if (plan) plans.push_back(std::move(*plan));
  };
  double best = std::numeric_limits<double>::infinity();
  for (SolvedMesh& mesh : meshes) {
    if (mesh.bound() > limits.near * best) {
      plans.push_back(bound_of(mesh));
      continue;
    }
    add(planner.plan(std::move(mesh)));
    if (!plans.empty()) best = std::min(best, plans.back().seconds);
  }
  const bool has_alike = std::ranges::any_of(plans, [](const auto& p) { return !p.is_bound && p.entries.empty(); });
  if (std::optional<ShardingPlan> alike = planner.without_entries(all.front());
      alike && !has_alike && (machine.memory == 0 || alike->peak <= machine.memory))
    add(std::move(alike));
  std::ranges::stable_sort(plans, {}, rank_of_plan);
  for (size_t p = 0; p < std::min(plans.size(), limits.explained); ++p) planner.explain(plans[p]);
  module.places.front().mesh = before;
  return plans;
}

std::vector<KnownPlan> known_plans(Module& module, const Schedule& schedule, const Target& target,
                                   const Machine& machine, const PlanLimits& limits) {
  const Mesh before = module.places.front().mesh;
  const Mesh mesh = meshes_for(limits).front();
  std::vector<KnownPlan> plans;
  const Planner planner(module, schedule, target, machine, limits);
  for (const KnownLayouts& known : known_layouts(module, planner.kept(), mesh))
    plans.push_back(Planner(module, schedule, target, machine, limits).plan(known, mesh));
  module.places.front().mesh = before;
  return plans;
}

std::optional<ShardingPlan> data_parallel_plan(Module& module, const Schedule& schedule, const Target& target,
                                               const Machine& machine, const PlanLimits& limits) {
  const Mesh before = module.places.front().mesh;
  const Mesh mesh = meshes_for(limits).front();
  Planner planner(module, schedule, target, machine, limits);
  std::optional<ShardingPlan> plan = planner.plan(data_parallel_layouts(module, planner.kept(), mesh), mesh).plan;
  if (plan) planner.explain(*plan);
  module.places.front().mesh = before;
  return plan;
}

MemoryNeed least_memory(Module& module, const Schedule& schedule, const Target& target, const Machine& machine,
                        const PlanLimits& limits) {
  const Mesh before = module.places.front().mesh;
  Planner planner(module, schedule, target, machine, limits);
  MemoryNeed least;
  for (const Mesh& mesh : meshes_for(limits))
    if (MemoryNeed need = planner.least_memory(mesh); least.parts.empty() || need.bytes < least.bytes)
      least = std::move(need);
  module.places.front().mesh = before;
  return least;
}

}  // namespace weftc
