// `weft plan`: a schedule from nothing. It searches layouts for each mesh that the ranks can form, then stages, then
// transforms of collectives. The result is an ordinary schedule, which a person can read, change and commit.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "cli/build.h"
#include "cli/commands.h"
#include "cli/machine_use.h"
#include "cli/page.h"
#include "cli/plan/entry_plans.h"
#include "cli/plan/layout_plans.h"
#include "cli/plan/plan_figures.h"
#include "cli/plan/plan_page.h"
#include "cli/plan/stage_plans.h"
#include "cli/plan/transform_plans.h"
#include "cli/process.h"
#include "cli/table.h"
#include "frontend/schedule_reader.h"
#include "frontend/schedule_writer.h"

namespace weftc {

namespace {

// The number of layouts, chosen by sums over ops, that are compiled to get a better prediction.
constexpr size_t kMostLayouts = 3;
// Level shard compiles no programs with more ops of all ranks, or more bytes of weights, than these.
constexpr int64_t kMostOpsOfRanks = 50'000, kMostWeights = int64_t{4} << 30;

/// "weft: 1", or the text of the schedule that is kept.
std::optional<std::string> kept_text(const Options& options, Diags& diags) {
  if (options.schedules.empty()) return "weft: 1\n";
  const auto given = options.schedule_texts.find(options.schedules.front());
  if (given != options.schedule_texts.end()) return given->second;
  std::optional<std::string> text = read_file(options.schedules.front());
  if (!text)
    diags.error("plan-kept-unreadable", Loc::in_file(options.schedules.front()), "the schedule cannot be read");
  return text;
}

/// Checks the kept schedule: it may contain a mesh and layouts, but no other placement, and with stages not even these.
bool check_kept(const Schedule& schedule, const Options& options, Diags& diags) {
  const auto refuse = [&](bool has, const char* key) {
    if (has)
      diags.error("plan-kept-unsupported", Loc::in_file(schedule.file), "a plan chooses '{}': leave it out", key);
  };
  const bool has_stages = options.level == "pipeline";
  refuse(has_stages && !schedule.mesh.empty(), "mesh");
  refuse(has_stages && !schedule.shard.empty(), "shard");
  refuse(!schedule.places.empty(), "places");
  refuse(schedule.pipeline.has_value(), "pipeline");
  refuse(!schedule.transforms.empty(), "transform");
  return diags.ok();
}

/// True if `shard` entries can be added to the text; else no plan could be written. False after reporting.
bool takes_entries(const std::string& file, const std::string& text, Diags& diags) {
  const ShardEntry any{{Selector::Kind::Name, "any", {}}, false, {{{"any"}, false, 0, 1, {}}}};
  return with_shard(file, text, {any}, diags).has_value();
}

/// How many ranks the plan is for; nothing after reporting that the machine has fewer, or the kept mesh others.
std::optional<int> ranks_of(const Machine& machine, const Options& options, const Mesh& mesh, Diags& diags) {
  const int of_mesh = mesh.empty() ? 0 : mesh_size(mesh), asked = options.machine_ranks;
  const int ranks = asked > 0 ? asked : of_mesh > 0 ? of_mesh : machine.ranks;
  if (ranks > machine.ranks)
    diags.error("plan-ranks", Loc::in_file(options.machine), "a plan for {} ranks: the machine has {}", ranks,
                machine.ranks);
  else if (of_mesh > 0 && of_mesh != ranks)
    diags.error("plan-ranks-of-mesh", Loc::in_file(options.schedules.front()), "the mesh has {} ranks, --ranks says {}",
                of_mesh, ranks);
  else
    return ranks;
  return {};
}

/// The fastest layouts that are not among `known`, as the whole compiler predicts them.
std::vector<PredictedSchedule> predict_layouts(const Options& options, const PlanRequest& request,
                                               const std::vector<ShardingPlan>& plans,
                                               const std::vector<PredictedSchedule>& known, Diags& diags) {
  std::vector<PredictedSchedule> predicted;
  for (const ShardingPlan& plan : plans) {
    if (plan.is_bound || predicted.size() == kMostLayouts) continue;
    const std::optional<std::string> text = schedule_of(request, plan, diags);
    if (!text || std::ranges::any_of(known, [&](const PredictedSchedule& one) { return one.text == *text; })) continue;
    predicted.push_back(predict_aloud(options, mesh_text(request, plan), *text));
    predicted.back().layouts = plan;
  }
  return predicted;
}

/// The layouts that people know, as the whole compiler predicts them.
std::vector<PredictedSchedule> predict_known(const Options& options, const PlanRequest& request,
                                             const std::vector<KnownPlan>& known_plans, Diags& diags) {
  std::vector<PredictedSchedule> predicted;
  for (const KnownPlan& known : known_plans) {
    const std::optional<std::string> text = known.plan ? schedule_of(request, *known.plan, diags) : std::nullopt;
    if (text) {
      predicted.push_back(predict_aloud(options, known.name, *text));
      predicted.back().layouts = known.plan;
      continue;
    }
    predicted.emplace_back().what = known.name;
    predicted.back().refused = known.missing;
  }
  return predicted;
}

/// The smallest lack of memory of any program, in bytes; 0 if a program lacks none, or if there is no program.
int64_t least_lacking(const std::vector<PredictedSchedule>& schedules) {
  int64_t least = 0;
  for (const PredictedSchedule& one : schedules) {
    if (one.lacking == 0 && one.refused.empty()) return 0;
    if (one.lacking > 0 && (least == 0 || one.lacking < least)) least = one.lacking;
  }
  return least;
}

/// The fastest layouts. If all their programs lack memory, layouts are chosen again under smaller limits, since sums
/// over values do not include a program's other needs. A limit that is a little smaller may give the same layouts, so
/// each step is at least twice the one before. It goes at most half the way to a limit that no layouts fit.
std::vector<PredictedSchedule> predict_fitting(const Options& options, const PlanRequest& request,
                                               const std::vector<ShardingPlan>& plans, Diags& diags) {
  constexpr int kMostTries = 8;
  std::vector<PredictedSchedule> found = predict_layouts(options, request, plans, {}, diags);
  Machine smaller = request.machine;
  const PlanRequest anew{request.file, request.kept, smaller, request.ranks, request.mesh, request.explained};
  int64_t limit = smaller.memory, too_small = 0, step = 0;
  for (int tries = 0; tries < kMostTries; ++tries) {
    const int64_t lacking = least_lacking(found);
    step = std::max(lacking, 2 * step);
    smaller.memory = std::max(limit - step, (limit + too_small) / 2);
    if (lacking == 0 || smaller.memory <= too_small) break;
    const std::optional<LayoutPlans> fewer = plan_layouts(options, anew, diags);
    if (fewer && !fewer->plans.empty()) {
      limit = smaller.memory;
      std::ranges::move(predict_layouts(options, request, fewer->plans, found, diags), std::back_inserter(found));
    } else {
      too_small = smaller.memory;
    }
  }
  return found;
}

/// Data parallel, which every training is measured by.
std::vector<PredictedSchedule> predict_data_parallel(const Options& options, const PlanRequest& request,
                                                     const LayoutPlans& layouts, Diags& diags) {
  const std::optional<ShardingPlan>& plan = layouts.data_parallel;
  const std::optional<std::string> text = plan ? schedule_of(request, *plan, diags) : std::nullopt;
  if (!text) return {};
  std::vector<PredictedSchedule> predicted = {predict_aloud(options, axes_text(plan->mesh) + ", data parallel", *text)};
  predicted.back().layouts = plan;
  return predicted;
}

/// The best layouts without a memory limit, if memory is insufficient by sums over values. A program may need less, and
/// a training can recompute values.
std::vector<PredictedSchedule> predict_roomy(const Options& options, const PlanRequest& request, Diags& diags) {
  Machine roomy = request.machine;
  roomy.memory = 0;
  PlanRequest unlimited{request.file, request.kept, roomy, request.ranks, request.mesh};
  std::optional<LayoutPlans> layouts = plan_layouts(options, unlimited, diags);
  if (!layouts || layouts->plans.empty() || layouts->plans.front().peak <= request.machine.memory) return {};
  layouts->plans.resize(1);
  return predict_layouts(options, request, layouts->plans, {}, diags);
}

const PredictedSchedule& best_of(const std::vector<PredictedSchedule>& schedules) {
  return *std::ranges::min_element(schedules, [](const auto& a, const auto& b) { return a.is_better_than(b); });
}

/// A schedule that several searches found is one.
void drop_repeated(std::vector<PredictedSchedule>& schedules) {
  std::set<std::string> known;
  std::erase_if(schedules, [&](const auto& one) { return !one.text.empty() && !known.insert(one.text).second; });
}

/// Why most of them cannot run, and how many that are.
std::pair<std::string, int> commonest_reason(const std::vector<PredictedSchedule>& schedules) {
  std::map<std::string, int> numbers;
  for (const PredictedSchedule& one : schedules) ++numbers[one.refused];
  return *std::ranges::max_element(numbers, {}, &std::pair<const std::string, int>::second);
}

/// Those that may be the fastest then have only entries that pay, and a training's collectives in buckets.
void improve_near_best(const Options& options, const PlanRequest& request, bool trains,
                       std::vector<PredictedSchedule>& found) {
  constexpr double kNear = 1.15, kNearInBuckets = 2;
  const double best = best_of(found).seconds;
  for (PredictedSchedule& one : found)
    if (one.refused.empty() && one.seconds <= kNear * best) one = plan_entries(options, request, one);
  std::vector<PredictedSchedule> in_buckets;
  for (const PredictedSchedule& one : found)
    if (trains && one.refused.empty() && one.seconds <= kNearInBuckets * best)
      if (PredictedSchedule made = plan_buckets(options, one); made.seconds < one.seconds)
        in_buckets.push_back(std::move(made));
  std::ranges::move(in_buckets, std::back_inserter(found));
}

/// The user's schedule, as text and parsed.
struct Planned {
  PlanRequest request;
  Schedule kept;
};

void report_memory(const Options& options, const PlanRequest& request, const MemoryNeed& least, Diags& diags) {
  constexpr size_t kShown = 3;
  std::vector<std::string> parts;
  for (const MemoryNeed::Part& part : least.parts)
    if (parts.size() < kShown) parts.push_back(format("'{}' ({})", printable(part.name), bytes_text(part.bytes)));
  diags.error("plan-memory", Loc::in_file(options.model),
              "no layouts were found with which {} ranks of {} suffice; each needs {} at least, most for {}",
              request.ranks, bytes_text(request.machine.memory), bytes_text(least.bytes), join(parts, ", "));
}

/// The whole compiler's predictions for all candidates of a level except transforms.
std::vector<PredictedSchedule> predict_candidates(const Options& options, const Planned& planned,
                                                  const LayoutPlans& layouts, Diags& diags) {
  const PlanRequest& request = planned.request;
  std::vector<PredictedSchedule> found = predict_fitting(options, request, layouts.plans, diags);
  const bool trains = planned.kept.train.has_value();
  const bool is_above_layouts = options.level != "shard";
  if (trains && is_above_layouts)
    std::ranges::move(predict_data_parallel(options, request, layouts, diags), std::back_inserter(found));
  const bool is_found = !found.empty() && best_of(found).refused.empty();
  if (request.machine.memory > 0 && (!is_found || (trains && is_above_layouts)))
    std::ranges::move(predict_roomy(options, request, diags), std::back_inserter(found));
  if (options.level == "pipeline") {
    const bool has_best = !found.empty() && best_of(found).refused.empty();
    const double best = has_best ? best_of(found).seconds : std::numeric_limits<double>::infinity();
    const ShardingPlan* whole = layouts.plans.empty() ? nullptr : &layouts.plans.front();
    std::ranges::move(plan_stages(options, request, trains, best, whole), std::back_inserter(found));
  }
  drop_repeated(found);
  return found;
}

/// The best whole program: of layouts alone, of stages if requested, and with transforms of the best.
std::optional<std::string> plan_of_programs(const Options& options, const Planned& planned, const LayoutPlans& layouts,
                                            Diags& diags, PlanReport* report) {
  std::vector<PredictedSchedule> found = predict_candidates(options, planned, layouts, diags);
  const bool is_found = !found.empty() && best_of(found).refused.empty();
  const bool is_hopeless = options.level == "shard" && layouts.least.bytes > planned.request.machine.memory;
  if (found.empty() || (!is_found && is_hopeless)) {
    report_memory(options, planned.request, layouts.least, diags);
    return {};
  }
  if (!is_found) {
    std::fprintf(stderr, "%s", schedule_table(found).c_str());
    const auto [reason, number] = commonest_reason(found);
    diags.error("plan-none", Loc::in_file(options.model),
                "none of {} schedules can run on this machine ({} of them: {})", found.size(), number, reason);
    return {};
  }
  if (options.level == "shard") {
    for (PredictedSchedule& one : found) one = drop_tiny_entries(options, planned.request, one);
  } else {
    improve_near_best(options, planned.request, planned.kept.train.has_value(), found);
    PredictedSchedule transformed = plan_transforms(options, best_of(found));
    if (transformed.is_better_than(best_of(found))) found.push_back(std::move(transformed));
  }
  std::fprintf(stderr, "%s", schedule_table(found).c_str());
  if (report)
    *report = report_of_schedules(planned.request, layouts, found,
                                  predict_known(options, planned.request, layouts.known, diags));
  return best_of(found).text;
}

/// The best layouts of a model that is too large for programs of it to be tried, by sums over ops and values.
std::optional<std::string> plan_of_layouts(const Options& options, const Planned& planned, const LayoutPlans& layouts,
                                           Diags& diags, PlanReport* report) {
  if (layouts.plans.empty()) {
    report_memory(options, planned.request, layouts.least, diags);
    return {};
  }
  std::fprintf(stderr, "%s", layout_table(planned.request, layouts.plans).c_str());
  std::optional<std::string> text = schedule_of(planned.request, layouts.plans.front(), diags);
  if (report && text) {
    *report = report_of_layouts(planned.request, layouts);
    report->schedule = *text;
  }
  return text;
}

/// The best schedule for --machine and --ranks as YAML. It keeps the entries of --schedule (--keep). A table of the
/// others goes to standard error. `report`: the data of --page, if requested. Returns nullopt after reporting.
std::optional<std::string> planned_schedule(const Options& options, Diags& diags, PlanReport* report) {
  const std::optional<Machine> machine = machine_for(options, diags);
  const std::optional<std::string> text = machine ? kept_text(options, diags) : std::nullopt;
  if (!text) return {};
  const std::string file = options.schedules.empty() ? "plan.yaml" : options.schedules.front();
  std::optional<Schedule> kept = read_schedule_text(file, *text, diags);
  if (!kept || !check_kept(*kept, options, diags)) return {};
  const std::optional<int> ranks = ranks_of(*machine, options, kept->mesh, diags);
  if (!ranks || !takes_entries(file, *text, diags)) return {};
  Planned planned{{file, *text, *machine, *ranks}, std::move(*kept)};
  if (!planned.kept.mesh.empty()) planned.request.mesh = planned.kept.mesh;
  planned.request.explained = options.level == "shard" ? 2 : kMostLayouts;
  planned.request.is_compared = report != nullptr;
  planned.request.wants_data_parallel = planned.kept.train && options.level != "shard";
  const std::optional<LayoutPlans> layouts = plan_layouts(options, planned.request, diags);
  if (!layouts) return {};
  const bool is_large = layouts->ops * *ranks > kMostOpsOfRanks || layouts->weights > kMostWeights;
  const bool by_sums = options.level == "shard" && is_large;
  return (by_sums ? plan_of_layouts : plan_of_programs)(options, planned, *layouts, diags, report);
}

/// The same, and the page of --page. A page that cannot be written is reported, and the schedule is there all the same.
std::optional<std::string> planned_schedule_with_page(const Options& options, Diags& diags) {
  if (options.page.empty()) return planned_schedule(options, diags, nullptr);
  PlanReport report;
  std::optional<std::string> text = planned_schedule(options, diags, &report);
  if (!text) return {};
  report.model = options.model, report.level = options.level;
  write_page(options.page, plan_page(report), diags);
  return text;
}

}  // namespace

int run_plan(const Options& options) {
  Diags diags;
  if (!options.output.empty() && !check_output(options, diags)) return finish(diags);
  const std::optional<std::string> text = planned_schedule_with_page(options, diags);
  if (!text) return finish(diags);
  if (options.output.empty())
    std::printf("%s", text->c_str());
  else if (const std::string why = write_file(options.output, *text); !why.empty())
    diags.error("plan-unwritable", Loc::in_file(options.output), "the schedule cannot be written: {}", why);
  return finish(diags);
}

int run_compile_or_plan(const Options& options) {
  if (!options.is_planned) return run_compile(options);
  Diags diags;
  const std::optional<std::string> text =
      check_output(options, diags) ? planned_schedule_with_page(options, diags) : std::nullopt;
  return text && diags.ok() ? run_compile(with_schedule(options, *text)) : finish(diags);
}

}  // namespace weftc
