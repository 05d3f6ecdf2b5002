// From a graph and a machine to a mesh and the `shard` entries of a schedule (the question of Alpa and Rhino, within
// one place). For each mesh that the ranks can form, finds the layouts of least cost, and the entries that lead to
// them.
#pragma once
#include <optional>
#include <string>

#include "ir/machine.h"
#include "passes/sharding/shard_entries.h"

namespace weftc {

/// The limits of a search for plans.
struct PlanLimits {
  int ranks = 1;
  std::optional<Mesh> mesh;  // of the user; empty: all that the ranks can form
  double work = 1e9;         // of a search that proves nothing (SearchBudget)
  double near = 1.05;        // a mesh whose bound is this factor above another one's time gets no entries
  size_t explained = 1;      // the number of best plans for which the savings of entries are computed
  size_t most_ops = 3000;    // in larger graphs the same op of all layers is one choice
};

/// The collectives of one kind that join the ranks of the same axes.
struct ExchangeSum {
  OpKind kind = OpKind::AllReduce;
  std::vector<int> axes;
  int64_t count = 0, bytes = 0;  // that a rank sends
  double seconds = 0;
};

struct ShardingPlan {
  Mesh mesh;
  std::vector<PlannedEntry> entries;
  double seconds = 0;     // that ops and collectives take one after the other, as the cost model has it
  double bound = 0;       // a lower bound on the time of all layouts on this mesh
  int64_t peak = 0;       // bytes of a rank: sources and values that live together
  bool is_bound = false;  // its seconds are the bound, and the rest is not known
  std::vector<ExchangeSum> exchanges;
  std::optional<SearchSize> search;  // that found it

  double exchanging() const;  // the seconds of collectives among all
  int64_t collectives() const;
};

/// A well-known plan, with which another one is compared.
struct KnownPlan {
  std::string name;
  std::optional<ShardingPlan> plan;
  std::string missing = {};  // why it has no plan, or why the plan cannot run: "too little memory"
};

/// Meshes of at most two axes whose sizes multiply to the number of ranks.
std::vector<Mesh> meshes_of(int ranks);

/// Plans, the best first, whose entries say what they save. A mesh that is not near the best has its bound alone. The
/// plan in which all ranks do the same is among them, as the mesh without entries. The module is in the form before
/// apply-layouts, with one place, whose mesh is replaced. `schedule` is the one under which the module was made.
std::vector<ShardingPlan> plan_sharding(Module& module, const Schedule& schedule, const Target& target,
                                        const Machine& machine, const PlanLimits& limits);

/// The plans of known_layouts.h on the first mesh, by the same costs, to compare a plan with them.
std::vector<KnownPlan> known_plans(Module& module, const Schedule& schedule, const Target& target,
                                   const Machine& machine, const PlanLimits& limits);

/// The data parallel plan among them, with what its entries save; nothing where the samples are too few, or not known.
std::optional<ShardingPlan> data_parallel_plan(Module& module, const Schedule& schedule, const Target& target,
                                               const Machine& machine, const PlanLimits& limits);

/// A lower bound on the memory of any layouts, on the mesh where it is least, for a user who has too little.
MemoryNeed least_memory(Module& module, const Schedule& schedule, const Target& target, const Machine& machine,
                        const PlanLimits& limits);

}  // namespace weftc
