// `weft plan`: a schedule from nothing. Layouts are searched for each mesh that the ranks can form, then stages, then
// transforms of collectives; what is written is a schedule like any other, which a person can read, change and commit.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <limits>
#include <map>

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
#include "frontend/schedule_reader.h"
#include "frontend/schedule_writer.h"

namespace weftc {

namespace {

// Of the layouts, whose times are sums over ops, so many are compiled to the end where that says more.
constexpr size_t kMostLayouts = 3;

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

/// What a plan needs of the schedule that is kept: of where things run it says a mesh and layouts at most, and with
/// stages not even these.
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

/// The layouts that take least, as the whole compiler predicts them.
std::vector<PredictedSchedule> predict_layouts(const Options& options, const PlanRequest& request,
                                               const std::vector<ShardingPlan>& plans, Diags& diags) {
  std::vector<PredictedSchedule> predicted;
  for (const ShardingPlan& plan : plans) {
    if (plan.is_bound || predicted.size() == kMostLayouts) continue;
    const std::optional<std::string> text = schedule_of(request, plan, diags);
    if (!text) continue;
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

/// The best layouts of a training as if there were memory enough, where there is not: values can be computed again.
std::vector<PredictedSchedule> predict_recomputed(const Options& options, const PlanRequest& request, Diags& diags) {
  Machine roomy = request.machine;
  roomy.memory = 0;
  PlanRequest unlimited{request.file, request.kept, roomy, request.ranks, request.mesh};
  std::optional<LayoutPlans> layouts = plan_layouts(options, unlimited, diags);
  if (!layouts || layouts->plans.empty() || layouts->plans.front().peak <= request.machine.memory) return {};
  layouts->plans.resize(1);
  return predict_layouts(options, request, layouts->plans, diags);
}

const PredictedSchedule& best_of(const std::vector<PredictedSchedule>& schedules) {
  return *std::ranges::min_element(schedules, [](const auto& a, const auto& b) { return a.is_better_than(b); });
}

/// Why most of them cannot run, and how many that are.
std::pair<std::string, int> commonest_reason(const std::vector<PredictedSchedule>& schedules) {
  std::map<std::string, int> numbers;
  for (const PredictedSchedule& one : schedules) ++numbers[one.refused];
  return *std::ranges::max_element(numbers, {}, &std::pair<const std::string, int>::second);
}

/// Of those that may be the fastest then.
void drop_needless_entries(const Options& options, const PlanRequest& request, std::vector<PredictedSchedule>& found) {
  constexpr double kNear = 1.15;
  const double best = best_of(found).seconds;
  for (PredictedSchedule& one : found)
    if (one.seconds <= kNear * best) one = plan_entries(options, request, one);
}

/// What is planned for: the user's schedule, as text and as it is read.
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

/// Levels above the layouts: stages where they are asked for, and transforms of the best schedule.
std::optional<std::string> plan_above_layouts(const Options& options, const Planned& planned,
                                              const LayoutPlans& layouts, Diags& diags, PlanReport* report) {
  std::vector<PredictedSchedule> found = predict_layouts(options, planned.request, layouts.plans, diags);
  const bool trains = planned.kept.train.has_value();
  if (trains && planned.request.machine.memory > 0)
    std::ranges::move(predict_recomputed(options, planned.request, diags), std::back_inserter(found));
  if (options.level == "pipeline") {
    const bool has_best = !found.empty() && best_of(found).refused.empty();
    const double best = has_best ? best_of(found).seconds : std::numeric_limits<double>::infinity();
    const ShardingPlan* whole = layouts.plans.empty() ? nullptr : &layouts.plans.front();
    std::ranges::move(plan_stages(options, planned.request, trains, best, whole), std::back_inserter(found));
  }
  if (found.empty()) {
    report_memory(options, planned.request, layouts.least, diags);
    return {};
  }
  if (!best_of(found).refused.empty()) {
    std::fprintf(stderr, "%s", schedule_table(found).c_str());
    const auto [reason, number] = commonest_reason(found);
    diags.error("plan-none", Loc::in_file(options.model),
                "none of {} schedules can run on this machine ({} of them: {})", found.size(), number, reason);
    return {};
  }
  if (best_of(found).stages.empty()) drop_needless_entries(options, planned.request, found);
  PredictedSchedule transformed = plan_transforms(options, best_of(found));
  if (transformed.is_better_than(best_of(found))) found.push_back(std::move(transformed));
  std::fprintf(stderr, "%s", schedule_table(found).c_str());
  if (report)
    *report = report_of_schedules(planned.request, layouts, found,
                                  predict_known(options, planned.request, layouts.known, diags));
  return best_of(found).text;
}

/// The best layouts alone.
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

/// The best schedule for --machine and --ranks as YAML, behind a table of the others on standard error; what --schedule
/// (--keep) says stays in it. `report`: what --page shows, where it is asked for. Nothing after reporting.
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
  if (options.level != "shard") planned.request.explained = kMostLayouts;
  planned.request.is_compared = report != nullptr;
  const std::optional<LayoutPlans> layouts = plan_layouts(options, planned.request, diags);
  if (!layouts) return {};
  return (options.level == "shard" ? plan_of_layouts : plan_above_layouts)(options, planned, *layouts, diags, report);
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
