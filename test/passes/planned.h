// A model and a schedule, brought to a Plan.
#pragma once
#include "ir/evaluate/evaluate.h"
#include "ir/evaluate/evaluate_plan.h"
#include "ir/text/plan_text.h"
#include "passes/fusion/fusion_groups.h"
#include "passes/plan/make_plan.h"
#include "passes/proof/prove_plan.h"
#include "test/scheduled.h"

namespace weftc::test {

struct Planned {
  std::unique_ptr<Scheduled> scheduled;  // owns the constants
  Plan plan;
};

inline Planned plan_of(const std::string& model, const std::string& yaml = "", Target target = {}) {
  Planned made{prepare(model, yaml, "", std::move(target)), {}};
  INFO(made.scheduled->diags.text());
  REQUIRE(made.scheduled->ok());
  std::vector<PlanningReport> reports;
  std::optional<Plan> plan = make_plan(*made.scheduled->module, made.scheduled->target, made.scheduled->diags,
                                       {{}, made.scheduled->schedule.kernels}, reports);
  INFO(made.scheduled->diags.text());
  REQUIRE(plan);
  made.plan = std::move(*plan);
  return made;
}

/// "contraction: MatMul Add; reduction: ...": what the kernels of a fused graph hold, without views and constants.
inline std::string kernels_text(const Graph& graph) {
  std::string text;
  for (OpId id : graph.order()) {
    const Op& op = graph.op(id);
    if (op.kind != OpKind::Fused) {
      for (const Graph& region : op.regions) text += "{ " + kernels_text(region) + "} ";
      continue;
    }
    text += std::string(category_name(kernel_category(op.regions[0]))) + ":";
    for (OpId inner : op.regions[0].order())
      if (category(op.regions[0].op(inner)) != Category::Source)
        text += std::string(" ") + op_def(op.regions[0].op(inner)).name;
    text += "; ";
  }
  return text;
}

inline std::string fused(const std::string& model, const std::string& yaml = "", Target target = {}) {
  const auto made = prepare(model, yaml, "fuse-regions", std::move(target));
  INFO(made->diags.text());
  REQUIRE(made->ok());
  return kernels_text(made->module->graph);
}

/// One global tensor for each port of the Plan (an input loaded in several places has a port in each).
inline std::vector<Tensor> port_inputs(const Plan& plan) {
  std::vector<Tensor> inputs;
  std::map<std::string, uint32_t> seeds;
  for (const Port& port : plan.inputs) {
    const std::string name = port.name.substr(0, port.name.find(".to."));
    const uint32_t seed = seeds.emplace(name, static_cast<uint32_t>(seeds.size()) + 1).first->second;
    TensorType type = port.type;
    for (Extent& e : type.shape)
      if (e.is_run_time()) e = {e.bound / 2, {}};  // a state needs room to grow
    inputs.push_back(seeded_tensor({type.dtype, shape_of(stacked_dims(type, port.mesh)), {}}, seed));
  }
  return inputs;
}

inline bool same_outputs(const PlanRun& a, const PlanRun& b) {
  const auto same = [](const std::vector<Tensor>& x, const std::vector<Tensor>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), same_elements);
  };
  return a.error == b.error && same(a.outputs, b.outputs) && same(a.states, b.states);
}

/// Checks that the Plan is right, and that in `orders` orders of its events it computes what its model does.
inline void check_orders(const Planned& made, uint32_t orders) {
  for (const std::string& wrong : prove_plan(made.plan)) CHECK_MESSAGE(false, wrong);
  const std::vector<Tensor> inputs = port_inputs(made.plan);
  const PlanRun first = evaluate_plan(made.plan, inputs, 0);
  CHECK(first.error == "");
  for (uint32_t seed = 1; seed < orders; ++seed) CHECK(same_outputs(first, evaluate_plan(made.plan, inputs, seed)));
  const EvalResult reference = evaluate(*made.scheduled->module, inputs);
  REQUIRE(first.outputs.size() == reference.outputs.size());
  for (size_t o = 0; o < first.outputs.size(); ++o)
    CHECK(std::equal(first.outputs[o].real.begin(), first.outputs[o].real.end(), reference.outputs[o].real.begin(),
                     reference.outputs[o].real.end(),
                     [](double a, double b) { return a == doctest::Approx(b).epsilon(1e-5); }));
}

inline const char* const kMlp = R"(<ir_version: 8, opset_import: ["" : 20]>
mlp (float[16,8] x) => (float[16,8] residual)
<float[8,16] fc_weight = random(1, 0.5), float[16] fc_bias = random(2, 0.5),
 float[16,8] proj_weight = random(3, 0.5), float[8] proj_bias = random(4, 0.5)>
{
  [fc] fc = MatMul(x, fc_weight)
  [fc_add] fc_add = Add(fc, fc_bias)
  [act] act = Relu(fc_add)
  [proj] proj = MatMul(act, proj_weight)
  [bias] bias = Add(proj, proj_bias)
  [residual] residual = Add(bias, x)
})";

inline const char* const kTp2 = R"(weft: 1
mesh: {tp: 2}
shard: {fc_weight: {tp: 1}, proj_weight: {tp: 0}}
)";

inline const char* const kTp2Fused = R"(weft: 1
mesh: {tp: 2}
shard: {fc_weight: {tp: 1}, proj_weight: {tp: 0}}
transform:
  - split:   {op: proj.sum, dim: 0, into: [scatter, gather]}
  - reorder: {gather: gather, past: [bias, residual]}
  - fuse:    {ops: [scatter, bias, residual, gather], into: far}
)";

inline const char* const kTp2Overlap = R"(weft: 1
mesh: {tp: 2}
shard: {fc_weight: {tp: 1}, proj_weight: {tp: 0}}
transform:
  - split:   {op: proj.sum, dim: 0, into: [scatter, gather]}
  - reorder: {gather: gather, past: [bias, residual]}
  - fuse:    {ops: [scatter, bias, residual, gather], into: far}
  - overlap: {ops: [proj, far], chunks: 4, dim: 0, mechanism: streams}
)";

inline const char* const kTp2Streams = R"(weft: 1
mesh: {tp: 2}
shard: {fc_weight: {tp: 1}, proj_weight: {tp: 0}}
transform:
  - overlap: {ops: [proj, proj.sum], chunks: 4, dim: 0, mechanism: streams}
)";

inline const char* const kTwoStages = R"(weft: 1
places: {first: {ranks: [0], mesh: {tp: 1}}, second: {ranks: [1, 2], mesh: {tp: 2}}}
shard: {proj_weight: {tp: 0}}
pipeline:
  stages: {first: {place: first, nodes: [fc, fc_add, act]}, second: {place: second, nodes: [proj, bias, residual]}}
  micro_batches: 4
  order: 1f1b
)";

}  // namespace weftc::test
