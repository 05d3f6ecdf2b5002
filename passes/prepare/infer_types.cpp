// The pass: infers types under known bounds of run-time lengths. Two facts are known only when all types are: how long
// the states let the lengths become, and from which length on the model's arithmetic is meaningful. Trial inferences
// find both first.
#include <algorithm>
#include <limits>
#include <map>

#include "passes/passes.h"
#include "passes/prepare/check_states.h"
#include "passes/prepare/relate_lengths.h"
#include "passes/prepare/type_inference.h"

namespace weftc {

namespace {

/// A trial inference, whose graph is discarded.
struct Trial {
  int errors;
  KnownLengths found;
};

Trial try_to_infer(Module& module, const KnownLengths& known) {
  const Graph graph = module.graph;
  const auto folded = module.folded;
  const auto unread = module.unread;
  const auto lengths = module.lengths;
  const auto relations = module.relations;
  Diags discarded;
  KnownLengths found = infer_graph(module, discarded, known, true);
  module.graph = graph;
  module.folded = folded;
  module.unread = unread;
  module.lengths = lengths;
  module.relations = relations;
  return {discarded.errors(), std::move(found)};
}

bool has_open_dim(const Module& module) {
  return std::ranges::any_of(module.graph.inputs(),
                             [&](ValueId input) { return !is_static(module.graph.type(input).shape); });
}

/// Adds bounds of lengths that a trial found; false if it found no new ones.
bool add_bounds(KnownLengths& known, const KnownLengths& found) {
  if (found.limits == known.limits && found.pins == known.pins) return false;
  known.limits = found.limits, known.pins = found.pins;
  return true;
}

/// Raises the least lengths of inputs to those that a trial demands, or to one where it demands none; false if they are
/// at least that.
bool raise(Least& least, const Least& demands) {
  const Least before = least;
  for (const auto& [name, value] : demands) least[name] = std::max(least[name], value);
  return least != before || least.emplace("", 1).second;
}

/// The bounds of the lengths. The next value of a state is at most as long as the state. Such a length may be used
/// before the cache grows (a mask of past + seq rows), where no op shows the bound yet. If an op takes two dimensions
/// for one, the smaller bound holds for both everywhere.
///
/// Open dimensions of inputs are at least 0, unless the model's arithmetic needs more: exporters write the number of
/// windows as (n - 1) / 4 + 1, which is no length where n is 0.
KnownLengths known_lengths(Module& module) {
  if (!has_open_dim(module)) return {};
  constexpr int kMostRounds = 64;
  KnownLengths known, best;
  int fewest = std::numeric_limits<int>::max();
  for (int round = 0; round < kMostRounds; ++round) {
    const Trial trial = try_to_infer(module, known);
    if (add_bounds(known, trial.found)) {
      fewest = std::numeric_limits<int>::max();
      continue;
    }
    if (trial.errors < fewest) fewest = trial.errors, best = known;
    if (trial.errors == 0 || !raise(known.least, trial.found.least)) break;
  }
  return best;
}

bool has_if(const Graph& graph) {
  for (OpId id = graph.first(); id; id = graph.next(id)) {
    const Op& op = graph.op(id);
    if (op.kind == OpKind::If || std::ranges::any_of(op.regions, has_if)) return true;
  }
  return false;
}

/// Where branches give different numbers of dimensions, chooses those whose types lead to fewer errors.
void choose_branches(Module& module, KnownLengths& known) {
  constexpr size_t kMostIfs = 8;
  if (!has_if(module.graph)) return;
  Trial best = try_to_infer(module, known);
  const std::set<std::string> unlike = best.found.unlike_ifs;
  for (const std::string& name : unlike) {
    if (best.errors == 0 || unlike.size() > kMostIfs) return;
    KnownLengths other = known;
    other.kept_else.insert(name);
    Trial trial = try_to_infer(module, other);
    if (trial.errors < best.errors) best = std::move(trial), known = std::move(other);
  }
}

}  // namespace

/// The nodes whose data-dependent lengths --dim bounds.
static std::map<std::string, Loc> bounded_counts(const Module& module) {
  std::map<std::string, Loc> nodes;
  for (const OpId id : module.graph.order())
    if (const Op& op = module.graph.op(id); op.has("count_bound")) nodes.emplace(op.name, module.loc(op));
  return nodes;
}

/// Each of them has made a length, which has its name.
static void check_bounded_counts(const Module& module, const std::map<std::string, Loc>& nodes, Diags& diags) {
  for (const auto& [name, loc] : nodes)
    if (!module.lengths.contains(Length::named(name, 1).text()))
      diags.error("count-bound-unused", loc, "--dim bounds '{}', but data decides no length here", printable(name));
}

void infer_types(Module& module, const Env& env) {
  const bool has_outputs = !module.graph.outputs().empty();
  const std::map<std::string, Loc> bounded = bounded_counts(module);
  KnownLengths known = known_lengths(module);
  choose_branches(module, known);
  infer_graph(module, env.diags, known, false);
  if (env.diags.ok() && has_outputs && module.graph.outputs().empty())
    env.diags.error("outputs-empty-unsupported", Loc::in_file(module.file),
                    "all outputs of the model are sequences and optionals without an element");
  if (env.diags.ok()) check_bounded_counts(module, bounded, env.diags);
  if (!env.diags.ok()) return;
  check_states(module, env.diags);
  relate_nodes(module, env.diags);
}

}  // namespace weftc
