// Runs the table of planning steps over one draft, as the runner does with passes: time, print, check.
#include "passes/plan/make_plan.h"

#include <algorithm>
#include <chrono>

#include "ir/base/check.h"
#include "ir/base/contains.h"
#include "ir/text/plan_text.h"
#include "passes/plan/planning.h"

namespace weftc {

namespace {

/// One program for all ranks that are in the same places.
void make_programs(Plan& plan) {
  std::vector<std::vector<bool>> classes;
  for (int rank = 0; rank < plan.world; ++rank) {
    std::vector<bool> in;
    for (const Place& place : plan.places) in.push_back(place.holds(rank));
    const auto at = std::find(classes.begin(), classes.end(), in);
    if (at == classes.end()) {
      classes.push_back(in);
      plan.programs.push_back({{rank}, {}, 0, 0});
    } else {
      plan.programs[static_cast<size_t>(at - classes.begin())].ranks.push_back(rank);
    }
  }
}

/// A broken promise is a bug of the step (exit 70).
void check_draft(const PlanningStep& step, const Plan& plan) {
  std::vector<std::string> wrong = step.check(plan);
  if (wrong.empty()) return;
  if (wrong.size() > 10) wrong.resize(10);
  WEFT_CHECK(false, format("after planning step {} the plan is wrong:\n  {}", step.name, join(wrong, "\n  ")));
}

size_t step_count(const Plan& plan) {
  size_t count = 0;
  for (const Block& block : plan.blocks) for_each_step(block.steps, [&](const Step&) { ++count; });
  return count;
}

PlanDraft new_draft(const Module& module, const Target& target, Diags& diags, const std::vector<KernelPin>& pins) {
  PlanDraft draft{module, diags, pins, {}, {}, {}, {}, {}, {}};
  Plan& plan = draft.plan;
  plan.name = module.name;
  plan.target = target;
  plan.world = module.world();
  plan.places = module.places;
  plan.origins = module.origins;
  plan.constants = &module.constants;
  plan.seed = module.seed;
  plan.per_rank = module.per_rank;
  plan.generation = module.generation;
  plan.training = module.training;
  plan.streams = {"compute"};
  for (const State& state : module.states) plan.states.push_back({state.input, state.output, {}, {}, false, {}, {}});
  make_programs(plan);
  return draft;
}

}  // namespace

std::optional<Plan> make_plan(const Module& module, const Target& target, Diags& diags, const PlanningOptions& options,
                              std::vector<PlanningReport>& reports) {
  PlanDraft draft = new_draft(module, target, diags, options.pins);
  for (const PlanningStep& step : planning()) {
    if (step.name == options.stop_before) break;
    const auto start = std::chrono::steady_clock::now();
    step.run(draft);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!diags.ok()) return {};
    reports.push_back({step.name, seconds, step_count(draft.plan), ""});
    if (contains(options.print_after, step.name)) reports.back().printed = print_plan(draft.plan);
    check_draft(step, draft.plan);
  }
  return std::move(draft.plan);
}

std::optional<Plan> make_plan(const Module& module, const Target& target, Diags& diags) {
  std::vector<PlanningReport> reports;
  return make_plan(module, target, diags, {}, reports);
}

}  // namespace weftc
