#include "passes/plan/make_plan.h"

#include <algorithm>

#include "passes/plan/plan_events.h"
#include "passes/plan/plan_parts.h"

namespace weftc {

namespace {

/// One program for all ranks that are in the same places.
void make_programs(Plan& plan) {
  std::vector<std::vector<bool>> classes;
  for (int rank = 0; rank < plan.world; ++rank) {
    std::vector<bool> in;
    for (const Place& place : plan.places)
      in.push_back(std::find(place.ranks.begin(), place.ranks.end(), rank) != place.ranks.end());
    const auto at = std::find(classes.begin(), classes.end(), in);
    if (at == classes.end()) {
      classes.push_back(in);
      plan.programs.push_back({{rank}, {}, 0, 0});
    } else {
      plan.programs[static_cast<size_t>(at - classes.begin())].ranks.push_back(rank);
    }
  }
}

bool deadlocks(const PlanEvents& events) { return static_cast<int>(events.order.size()) < events.nodes; }

/// Two blocks that send to each other, perhaps through others; none if transfers lead forward only.
std::optional<std::pair<size_t, size_t>> mutual_blocks(const Plan& plan) {
  const size_t n = plan.blocks.size();
  std::vector<std::vector<bool>> leads(n, std::vector<bool>(n, false));
  const auto block_of = [&](const auto& matches) {
    size_t found = 0;
    for (size_t b = 0; b < n; ++b)
      if (std::any_of(plan.blocks[b].steps.begin(), plan.blocks[b].steps.end(), matches)) found = b;
    return found;
  };
  for (int t = 0; t < static_cast<int>(plan.transfers.size()); ++t) {
    const auto sends = [t](const Step& s) {
      return std::holds_alternative<SendStep>(s.what) && std::get<SendStep>(s.what).transfer == t;
    };
    const auto recvs = [t](const Step& s) {
      return std::holds_alternative<RecvStep>(s.what) && std::get<RecvStep>(s.what).transfer == t;
    };
    leads[block_of(sends)][block_of(recvs)] = true;
  }
  for (size_t via = 0; via < n; ++via)
    for (size_t a = 0; a < n; ++a)
      for (size_t b = 0; b < n; ++b)
        if (leads[a][via] && leads[via][b]) leads[a][b] = true;
  for (size_t a = 0; a < n; ++a)
    for (size_t b = a + 1; b < n; ++b)
      if (leads[a][b] && leads[b][a]) return std::make_pair(a, b);
  return {};
}

/// Orders the steps with as few streams and as little memory as do not deadlock. Stages that read each other may do so
/// all the same.
void order_steps(PlanDraft& planning) {
  if (planning.plan.transfers.empty()) return add_signals(planning, Independence::Shared);
  const Plan unordered = planning.plan;
  for (const Independence i : {Independence::Shared, Independence::PairOfBlocks, Independence::AllMicroBatches}) {
    planning.plan = unordered;
    add_signals(planning, i);
    const PlanEvents events(planning.plan, false);
    if (!deadlocks(events)) return;
    const auto mutual = mutual_blocks(planning.plan);
    if (i != Independence::AllMicroBatches || !mutual) continue;
    planning.diags.error("pipeline-deadlock", planning.module.pipeline->loc,
                         "the stages '{}' and '{}' read each other's results, and in this order their ranks would wait "
                         "for ever: what reads the other stage's result must stand in a stage of its own",
                         planning.plan.blocks[mutual->first].name, planning.plan.blocks[mutual->second].name);
  }
}

}  // namespace

std::optional<Plan> make_plan(const Module& module, const Target& target, Diags& diags) {
  PlanDraft planning{module, diags, {}, {}, {}, {}, {}};
  Plan& plan = planning.plan;
  plan.name = module.name;
  plan.target = target;
  plan.world = module.world();
  plan.places = module.places;
  plan.origins = module.origins;
  plan.constants = &module.constants;
  plan.seed = module.seed;
  plan.per_rank = module.per_rank;
  plan.streams = {"compute"};
  for (const State& state : module.states) plan.states.push_back({state.input, state.output, {}});
  make_programs(plan);
  write_steps(planning);
  if (!diags.ok()) return {};
  warn_of_idle_ranks(planning);
  choose_kernels(planning);
  choose_storage(planning);
  place_weights(planning);
  order_steps(planning);
  if (!diags.ok()) return {};
  place_buffers(planning);
  return std::move(planning.plan);
}

}  // namespace weftc
