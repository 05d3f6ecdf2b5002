// Random transforms on random laid-out graphs: what the rules accept computes the same; what they refuse, applied
// blindly, differs or cannot be built, but for a few.
#include <cstdlib>

#include "ir/base/check.h"
#include "test/passes/random_model.h"

using namespace weft;
using namespace weft::test;

namespace {

Selector named(const std::string& name) { return {Selector::Kind::Name, name, Loc::text("random", 1, 1)}; }

TransformStep step(std::variant<SplitStep, ReorderStep, FuseStep, OverlapStep> what) {
  return {std::move(what), Loc::text("random", 1, 1)};
}

/// Readers of a value, and some of theirs: what a collective behind it may be moved past.
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
  const int ndim = graph.type(graph.op(first).outputs[0]).ndim();
  if (ndim == 0) return;
  schedule.transforms.push_back(
      step(OverlapStep{selectors(names), dice.pick<int>({2, 4}), dice.roll(ndim), OverlapStep::Mechanism::Streams}));
}

/// One to three steps that make sense together; none if the graph has no collective to work on.
void add_transforms(Dice& dice, const Module& module, Schedule& schedule) {
  const Graph& graph = module.graph;
  const std::vector<OpId> sums = ops_of_kind(graph, OpKind::AllReduce), gathers = ops_of_kind(graph, OpKind::AllGather);
  const int choice = dice.roll(10);
  if (choice < 4 && !sums.empty()) {
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

struct Run {
  bool built = false;
  std::string text;  // diagnostics, or what did not verify
  std::vector<Tensor> outputs;
};

Run run(const Module& source, const Schedule& schedule, const char* stop_after, bool unchecked,
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

bool equal(const Run& a, const Run& b) {
  for (size_t i = 0; i < a.outputs.size(); ++i)
    if (!agree(a.outputs[i], b.outputs[i])) return false;
  return a.outputs.size() == b.outputs.size();
}

}  // namespace

TEST_CASE("random transforms: accepted ones are right, harmless ones are accepted") {
  const char* wanted = std::getenv("WEFT_RANDOM_GRAPHS");
  const uint32_t graphs = wanted ? static_cast<uint32_t>(std::atoi(wanted)) : 2000;
  int accepted = 0, harmless = 0, harmless_refused = 0, differing = 0;
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
    const Run plain = run(model, {}, "decompose", false, inputs);
    const Run checked = run(model, schedule, "apply-transforms", false, inputs);
    if (checked.built) {
      INFO(checked.text);
      REQUIRE(equal(checked, plain));
      ++accepted, ++harmless;
      continue;
    }
    INFO(checked.text);
    REQUIRE(checked.text.find("error:") != std::string::npos);  // refused by a diagnostic, not by a failing check
    const Run blind = run(model, schedule, "apply-transforms", true, inputs);
    if (!blind.built || !equal(blind, plain)) {
      ++differing;
      continue;
    }
    ++harmless, ++harmless_refused;
    ++refusals[checked.text.substr(checked.text.rfind('['))];
  }
  MESSAGE("accepted " << accepted << ", refused and differing " << differing << ", refused though harmless "
                      << harmless_refused);
  for (const auto& [id, count] : refusals) MESSAGE(count << " harmless refused by " << id);
  CHECK(accepted > static_cast<int>(graphs) / 10);
  CHECK(accepted * 100 >= harmless * 80);
}
