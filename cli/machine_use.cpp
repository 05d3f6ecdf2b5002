#include "cli/machine_use.h"

#include <algorithm>

#include "cli/timeline_text.h"
#include "frontend/machine_file.h"
#include "passes/cost/cost_model.h"

namespace weftc {

namespace {

bool is_of_network(const std::string& ceiling) { return ceiling == "link" || ceiling == "latency"; }

/// The least time that two neighbours wait for each other.
double latency_of(const Machine& machine) {
  return collective_seconds(machine, OpKind::AllReduce, 0, 0, group_of(machine, {0, 1}));
}

void take_ceilings(Machine& machine, const Options& options) {
  if (options.ceilings.empty()) return;
  const bool is_flat = std::any_of(options.ceilings.begin(), options.ceilings.end(),
                                   [](const auto& c) { return is_of_network(c.first); });
  if (is_flat && !machine.levels.empty()) {
    machine.ceilings.latency = latency_of(machine);
    machine.levels.clear(), machine.uses_nccl = false;
  }
  for (const auto& [name, value] : options.ceilings) *find_ceiling(machine.ceilings, name) = value;
  machine.ceilings.machine += ", changed by --ceiling";
}

std::string network_text(const Machine& machine) {
  const Ceilings& c = machine.ceilings;
  if (machine.levels.empty()) return "link " + metric_text(c.link) + "B/s and " + time_text(c.latency);
  std::vector<std::string> levels;
  for (const NetworkLevel& level : machine.levels)
    levels.push_back(printable(level.name) + " " + metric_text(level.bandwidth) + "B/s" +
                     format(" among {} ranks", level.ranks));
  return join(levels, ", ") + (machine.uses_nccl ? ", times by NCCL's model" : "");
}

}  // namespace

std::optional<Machine> machine_for(const Options& options, Diags& diags) {
  Machine machine = usual_machine(options.target);
  if (!options.machine.empty()) {
    std::optional<Machine> read = read_machine(options.machine, diags);
    if (!read) return {};
    machine = std::move(*read);
    if (machine.is_device != options.target.has_grid()) {
      diags.error("machine-target", Loc::in_file(options.machine), "the machine is one for --target {}",
                  machine.is_device ? "cuda" : "host");
      return {};
    }
  }
  take_ceilings(machine, options);
  return machine;
}

bool has_all_ranks(const Machine& machine, const Plan& plan, const Options& options, Diags& diags) {
  if (options.machine.empty() || plan.world <= machine.ranks) return true;
  diags.error("machine-too-small", Loc::in_file(options.machine), "the machine has {} rank{}, the schedule uses {}",
              machine.ranks, machine.ranks == 1 ? "" : "s", plan.world);
  return false;
}

std::string figures_text(const Machine& machine) {
  const Ceilings& c = machine.ceilings;
  return c.machine + ": f32 " + metric_text(c.f32) + "OP/s, memory " + metric_text(c.memory) + "B/s, " +
         network_text(machine) + ", " + time_text(c.step) + " a step";
}

}  // namespace weftc
