#include "passes/make_plan.h"

#include <algorithm>

#include "passes/plan_parts.h"

namespace weft {

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

}  // namespace

std::optional<Plan> make_plan(const Module& module, const Target& target, Diags& diags) {
  Planning planning{module, diags, {}, {}, {}, {}, {}};
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
  place_weights(planning);
  add_signals(planning);
  place_buffers(planning);
  return std::move(planning.plan);
}

}  // namespace weft
