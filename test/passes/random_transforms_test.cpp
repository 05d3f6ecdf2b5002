// Random transforms on random laid-out graphs. Accepted transforms compute the same, and so does the Plan if the result
// has a kernel of several ops or chunks. Refused transforms, applied blindly, differ or cannot be built, with few
// exceptions.
#include <cstdlib>

#include "ir/base/check.h"
#include "passes/layout/layout_rules.h"
#include "test/passes/planned.h"
#include "test/passes/random_model.h"

using namespace weftc;
using namespace weftc::test;

namespace {

Selector named(const std::string& name) { return {Selector::Kind::Name, name, Loc::text("random", 1, 1)}; }

TransformStep step(std::variant<SplitStep, ReorderStep, FuseStep, OverlapStep> what) {
  return {std::move(what), Loc::text("random", 1, 1)};
}

/// Readers of a value, and some of their readers: ops past which a collective of the value may be moved.
std::vector<std::string> readers_from(Dice& dice, const Graph& graph, ValueId value) {
  std::vector<std::string> names;
  std::vector<ValueId> front{value};
  for (int depth = 0; depth < 3 && !front.empty(); ++depth) {
    std::vector<ValueId> next;
    for (ValueId v : front)
      for (const Use& use : graph.value(v).uses) {
        if (!use.op || category(graph.op(use.op)) == Category::Collective) continue;
        const std::string& name = graph.op(use.op).name;
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
        next.push_back(graph.op(use.op).outputs[0]);
      }
    if (dice.chance(40)) break;
    front = next;
  }
  return names;
}

std::vector<Selector> selectors(const std::vector<std::string>& names) {
  std::vector<Selector> all;
  for (const std::string& name : names) all.push_back(named(name));
  return all;
}

std::vector<OpId> ops_of_kind(const Graph& graph, OpKind kind) {
  std::vector<OpId> found;
  for (OpId id : graph.order())
    if (graph.op(id).kind == kind) found.push_back(id);
  return found;
}

/// Adds ops that others of the list read, which need not depend on what comes first in it.
void add_side_ops(Dice& dice, const Graph& graph, std::vector<std::string>& names) {
  for (size_t i = 1; i < names.size() && names.size() < 12; ++i)
    for (ValueId v : graph.op(graph.find_op(names[i])).inputs) {
      const Op& producer = graph.producer_op(v);
      const bool stays = producer.kind == OpKind::Input || producer.kind == OpKind::Constant;
      if (!stays && dice.chance(60) && std::find(names.begin(), names.end(), producer.name) == names.end())
        names.push_back(producer.name);
    }
}

void add_overlap(Dice& dice, const Graph& graph, Schedule& schedule) {
  std::vector<OpId> starts;
  for (OpId id : graph.order())
    if (category(graph.op(id)) != Category::Source) starts.push_back(id);
  if (starts.empty()) return;
  const OpId first = dice.pick(starts);
  std::vector<std::string> names{graph.op(first).name};
  for (ValueId at = graph.op(first).outputs[0]; dice.chance(70) && !graph.value(at).uses.empty();) {
    const Use use = dice.pick(graph.value(at).uses);
    if (!use.op) break;
    names.push_back(graph.op(use.op).name);
    at = graph.op(use.op).outputs[0];
  }
  if (dice.chance(50)) add_side_ops(dice, graph, names);
  const int ndim = graph.type(graph.op(first).outputs[0]).ndim();
  if (ndim == 0) return;
  // A loop that is one kernel joins a computation and a collective.
  const bool joins = names.size() > 1 && std::any_of(names.begin(), names.end(), [&](const std::string& name) {
                       const OpKind kind = graph.op(graph.find_op(name)).kind;
                       return kind == OpKind::AllReduce || kind == OpKind::AllGather;
                     });
  const auto mechanism =
      joins ? dice.pick<Mechanism>({Mechanism::Streams, Mechanism::Signal, Mechanism::Fused}) : Mechanism::Streams;
  schedule.transforms.push_back(
      step(OverlapStep{selectors(names), dice.pick<int>({2, 4}), dice.roll(ndim), mechanism}));
}

/// Several sums, split, and what reads them, as one kernel: the values lie apart and meet the ranks together.
void add_scattered(Dice& dice, const Graph& graph, const std::vector<OpId>& sums, Schedule& schedule) {
  std::vector<std::string> fused;
  for (size_t i = 0; i < std::min<size_t>(sums.size(), 3); ++i) {
    const Op& sum = graph.op(sums[i]);
    const int ndim = graph.type(sum.outputs[0]).ndim();
    if (ndim == 0) return;
    const std::string rs = "rs" + std::to_string(i), ag = "ag" + std::to_string(i);
    schedule.transforms.push_back(step(SplitStep{named(sum.name), dice.roll(ndim), {rs, ag}}));
    fused.push_back(rs), fused.push_back(ag);
    const std::vector<std::string> past = readers_from(dice, graph, sum.outputs[0]);
    if (past.empty() || dice.chance(50)) continue;
    schedule.transforms.push_back(step(ReorderStep{true, {named(ag)}, selectors(past)}));
    fused.insert(fused.end(), past.begin(), past.end());
  }
  schedule.transforms.push_back(step(FuseStep{selectors(fused), "far"}));
}

/// A run of ops as one kernel, whatever they are.
void add_fuse(Dice& dice, const Graph& graph, Schedule& schedule) {
  std::vector<OpId> starts;
  for (OpId id : graph.order())
    if (category(graph.op(id)) != Category::Source) starts.push_back(id);
  if (starts.empty()) return;
  const Op& first = graph.op(dice.pick(starts));
  std::vector<std::string> names = readers_from(dice, graph, first.outputs[0]);
  names.insert(names.begin(), first.name);
  schedule.transforms.push_back(step(FuseStep{selectors(names), "near"}));
}

/// One to three steps that make sense together; none if the graph has no collective to work on.
void add_transforms(Dice& dice, const Module& module, Schedule& schedule) {
  const Graph& graph = module.graph;
  const std::vector<OpId> sums = ops_of_kind(graph, OpKind::AllReduce), gathers = ops_of_kind(graph, OpKind::AllGather);
  const int choice = dice.roll(13);
  if (choice >= 12) {
    add_fuse(dice, graph, schedule);
  } else if (choice >= 10 && !sums.empty()) {
    add_scattered(dice, graph, sums, schedule);
  } else if (choice < 4 && !sums.empty()) {
    const Op& sum = graph.op(dice.pick(sums));
    const int ndim = graph.type(sum.outputs[0]).ndim();
    if (ndim == 0) return;
    schedule.transforms.push_back(step(SplitStep{named(sum.name), dice.roll(ndim), {"rs", "ag"}}));
    const std::vector<std::string> past = readers_from(dice, graph, sum.outputs[0]);
    if (past.empty() || dice.chance(20)) return;
    schedule.transforms.push_back(step(ReorderStep{true, {named("ag")}, selectors(past)}));
    if (dice.chance(50)) return;
    std::vector<std::string> fused{"rs"};
    fused.insert(fused.end(), past.begin(), past.end());
    fused.push_back("ag");
    schedule.transforms.push_back(step(FuseStep{selectors(fused), "far"}));
  } else if (choice < 6 && !sums.empty()) {
    const Op& sum = graph.op(dice.pick(sums));
    const std::vector<std::string> past = readers_from(dice, graph, sum.outputs[0]);
    if (!past.empty()) schedule.transforms.push_back(step(ReorderStep{false, {named(sum.name)}, selectors(past)}));
  } else if (choice < 8 && !gathers.empty()) {
    const Op& gather = graph.op(dice.pick(gathers));
    const std::vector<std::string> past = readers_from(dice, graph, gather.outputs[0]);
    if (!past.empty()) schedule.transforms.push_back(step(ReorderStep{true, {named(gather.name)}, selectors(past)}));
  } else {
    add_overlap(dice, graph, schedule);
  }
}

std::string names_text(const std::vector<Selector>& selectors) {
  std::string text;
  for (const Selector& s : selectors) text += " " + s.text;
  return text;
}

/// The steps, for a failure's report.
std::string text_of(const Schedule& schedule) {
  std::string text;
  for (const TransformStep& s : schedule.transforms) {
    if (const auto* split = std::get_if<SplitStep>(&s.what))
      text += "split " + split->op.text + " dim " + std::to_string(split->dim) + "\n";
    if (const auto* reorder = std::get_if<ReorderStep>(&s.what))
      text += "reorder" + names_text(reorder->moved) + " past" + names_text(reorder->past) + "\n";
    if (const auto* fuse = std::get_if<FuseStep>(&s.what)) text += "fuse" + names_text(fuse->ops) + "\n";
    if (const auto* overlap = std::get_if<OverlapStep>(&s.what))
      text += "overlap" + names_text(overlap->ops) + " dim " + std::to_string(overlap->dim) + ", " +
              std::to_string(overlap->chunks) + " chunks, mechanism " +
              std::to_string(static_cast<int>(overlap->mechanism)) + "\n";
  }
  return text;
}

struct Run {
  bool built = false;
  std::string text;  // diagnostics, or what did not verify
  std::vector<Tensor> outputs;
};

/// The state that a blind rule would propagate: the first operand's state of an axis, if the result has that dim.
std::optional<AxisState> carried_blindly(const Graph& graph, const Op& op, size_t result, int axis,
                                         const std::vector<Layout>& arriving) {
  const Dims to = graph.type(op.outputs[result]).dims();
  for (size_t i = 0; i < arriving.size(); ++i) {
    const AxisState state = arriving[i][axis];
    if (state.is(AxisState::Kind::P)) return state;
    if (!state.is(AxisState::Kind::S)) continue;
    const Dims from = graph.type(op.inputs[i]).dims();
    const size_t dim = static_cast<size_t>(state.dim);
    if (dim < to.size() && to[dim] == from[dim]) return state;
  }
  return {};
}

/// The operands that a blind rule would cut: every one along the dim of the result, if it has that extent.
OpLayouts cut_blindly(const Graph& graph, const Op& op, size_t result, int axis, AxisState state, OpLayouts settled) {
  const int64_t extent = graph.type(op.outputs[result]).shape[state.dim].bound;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (op.inputs[i] && graph.type(op.inputs[i]).ndim() > state.dim &&
        graph.type(op.inputs[i]).shape[state.dim].bound == extent)
      settled.operands[i].set(axis, state);
  settled.results[result].set(axis, state);
  return settled;
}

constexpr UncheckedRules kBlind = {carried_blindly, cut_blindly};

Run run(const Module& source, const Schedule& schedule, const char* stop_after, const UncheckedRules* unchecked,
        const std::vector<Tensor>& inputs) {
  Module module = source_copy(source);
  Diags diags;
  Target target;
  RunOptions options;
  options.stop_after = stop_after;
  RunReport report;
  Run result;
  try {
    result.built = run_pipeline(module, {schedule, target, diags, unchecked}, options, report);
  } catch (const InternalError& error) {
    result.text = error.what();
    return result;
  }
  result.text = diags.text();
  if (!result.built) return result;
  const EvalResult evaluated = evaluate(module, inputs);
  if (!evaluated.error.empty()) return {false, evaluated.error, {}};
  result.outputs = evaluated.outputs;
  return result;
}

bool makes_kernels(const Schedule& schedule) {
  return std::any_of(schedule.transforms.begin(), schedule.transforms.end(), [](const TransformStep& s) {
    return std::holds_alternative<FuseStep>(s.what) || std::holds_alternative<OverlapStep>(s.what);
  });
}

/// The whole way to a Plan, which is proved and run; what is not supported there is said by name.
Run run_plan(const Module& source, const Schedule& schedule, const std::vector<Tensor>& inputs) {
  Module module = source_copy(source);
  Diags diags;
  Target target;
  RunReport report;
  Run result;
  if (!run_pipeline(module, {schedule, target, diags}, {}, report)) return {false, diags.text(), {}};
  const std::optional<Plan> plan = make_plan(module, target, diags);
  if (!plan) return {false, diags.text(), {}};
  const std::vector<std::string> wrong = prove_plan(*plan);
  if (!wrong.empty()) return {true, join(wrong, "\n"), {}};
  PlanRun run = evaluate_plan(*plan, inputs, 1);
  return {true, run.error, std::move(run.outputs)};
}

bool equal(const Run& a, const Run& b) {
  for (size_t i = 0; i < a.outputs.size(); ++i)
    if (!agree(a.outputs[i], b.outputs[i])) return false;
  return a.outputs.size() == b.outputs.size();
}

/// A Plan's memory holds rounded values. Norms of nearly equal values amplify rounding, and differences of equal values
/// expose it. A part that is missing or stale differs by more, and one rank's Plan then gives the right result.
bool alike(const Run& planned, const Run& plain, const Run& one_rank) {
  constexpr double kTolerance = 1e-2;
  constexpr double kNoise = 1e-4;  // a float's last place over the root of a norm's epsilon, and some
  for (size_t i = 0; i < planned.outputs.size(); ++i) {
    const Tensor &a = planned.outputs[i], &b = plain.outputs[i];
    const bool stable = i < one_rank.outputs.size() && agree(one_rank.outputs[i], b);
    double largest = 0;
    for (int64_t e = 0; e < a.size(); ++e) largest = std::max(largest, std::fabs(a.at(e)));
    if (stable && !agree(a, b) && !(relative_error(a, b) < kTolerance) && largest > kNoise) return false;
  }
  return planned.outputs.size() == plain.outputs.size();
}

}  // namespace

TEST_CASE("random transforms: accepted ones are right, harmless ones are accepted") {
  const char* wanted = std::getenv("WEFT_RANDOM_GRAPHS");
  const uint32_t graphs = wanted ? static_cast<uint32_t>(std::atoi(wanted)) : 2000;
  int accepted = 0, plans = 0, harmless = 0, harmless_refused = 0, differing = 0;
  std::map<std::string, int> refusals;
  for (uint32_t seed = 1; seed <= graphs; ++seed) {
    CAPTURE(seed);
    Dice dice(seed * 7919);
    const Module model = RandomModel(dice, 4 + dice.roll(8)).take();
    Schedule schedule = random_schedule(dice, model);
    const std::vector<Tensor> inputs = seeded_inputs(model);
    Module laid = source_copy(model);
    Diags diags;
    Target target;
    RunOptions options;
    options.stop_after = "apply-layouts";
    RunReport report;
    if (!run_pipeline(laid, {schedule, target, diags}, options, report)) continue;
    add_transforms(dice, laid, schedule);
    if (schedule.transforms.empty()) continue;
    const Run plain = run(model, {}, "decompose", nullptr, inputs);
    const Run checked = run(model, schedule, "apply-transforms", nullptr, inputs);
    if (checked.built) {
      INFO(checked.text);
      REQUIRE(equal(checked, plain));
      ++accepted, ++harmless;
      if (!makes_kernels(schedule)) continue;
      const Run planned = run_plan(model, schedule, inputs);
      INFO(text_of(schedule) << planned.text);
      if (planned.built)
        REQUIRE((equal(planned, plain) || alike(planned, plain, run_plan(model, {}, inputs))));
      else
        REQUIRE(planned.text.find("-unsupported]") != std::string::npos);
      plans += planned.built;
      continue;
    }
    INFO(checked.text);
    REQUIRE(checked.text.find("error:") != std::string::npos);  // refused by a diagnostic, not by a failing check
    const Run blind = run(model, schedule, "apply-transforms", &kBlind, inputs);
    if (!blind.built || !equal(blind, plain)) {
      ++differing;
      continue;
    }
    ++harmless, ++harmless_refused;
    ++refusals[checked.text.substr(checked.text.rfind('['))];
  }
  MESSAGE("accepted " << accepted << " (" << plans << " run as plans), refused and differing " << differing
                      << ", refused though harmless " << harmless_refused);
  for (const auto& [id, count] : refusals) MESSAGE(count << " harmless refused by " << id);
  CHECK(plans > accepted / 10);
  CHECK(accepted > static_cast<int>(graphs) / 10);
  CHECK(accepted * 100 >= harmless * 80);
}
