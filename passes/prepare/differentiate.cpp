// Reverse-mode differentiation: each Gradient is replaced by ops that go from its y back to its xs (backward.h).
//
//   %y = Mul(%a, %b), %da = Gradient(%a, %y) {xs = ["a"], y = "y"}   ->   %da = Mul(%g, %b),  %g being ones
//
// The backward ops of node N come from a node N.grad of their own, so that the name N in a schedule means the same as
// in the model. The derivative by value V is V.grad.
#include <algorithm>
#include <set>
#include <unordered_set>

#include "passes/graph_order.h"
#include "passes/passes.h"
#include "passes/prepare/backward.h"

namespace weftc {

/// The name of the value whose layout the derivative by `x` takes. It is an optimizer state of the same dims if `x` is
/// a parameter that has one, else `x` itself.
static std::string like_state(const Module& module, ValueId x) {
  const Graph& graph = module.graph;
  for (const State& state : module.states)
    if (state.of == graph.value(x).name)
      if (const ValueId kept = graph.find_value(state.input); graph.type(kept).dims() == graph.type(x).dims())
        return state.input;
  return graph.value(x).name;
}

/// True for the Gradient of the training itself: it is by parameters. Its result may be a derivative of a multiple of
/// the loss.
static bool is_of_training(const Module& module, const Op& gradient) {
  const auto is_parameter = [&](const std::string& x) {
    return std::ranges::any_of(module.states, [&](const State& state) { return state.input == x; });
  };
  return module.training && std::ranges::all_of(gradient.texts("xs"), is_parameter);
}

/// The first op that cuts the way from a value to the loss: its result is no real number, or has a derivative. None
/// where the value does not lead there.
static OpId op_that_cuts(const Backward& back, ValueId from, OpId gradient) {
  const Graph& graph = back.graph();
  std::unordered_set<ValueId> reached{from};
  for (OpId id = graph.first(); !(id == gradient); id = graph.next(id)) {
    const Op& op = graph.op(id);
    if (std::ranges::none_of(op.inputs, [&](ValueId v) { return reached.contains(v); })) continue;
    const bool is_real = std::ranges::any_of(op.outputs, [&](ValueId v) { return is_float(graph.type(v).dtype); });
    if (!is_real || std::ranges::any_of(op.outputs, [&](ValueId v) { return static_cast<bool>(back.derivative(v)); }))
      return id;
    reached.insert(op.outputs.begin(), op.outputs.end());
  }
  return {};
}

/// A parameter would never change if every way to the loss is cut. False after reporting the op that cuts one.
static bool has_all_derivatives(Backward& back, OpId gradient) {
  const Module& module = back.module();
  const Graph& graph = back.graph();
  const Op& op = graph.op(gradient);
  if (!is_of_training(module, op)) return true;
  for (size_t i = 0; i < op.texts("xs").size(); ++i) {
    if (back.derivative(op.inputs[i])) continue;
    const OpId cut = op_that_cuts(back, op.inputs[i], gradient);
    const std::string why =
        cut ? format(": {} ('{}') on the way there has none", op_def(graph.op(cut)).name, printable(graph.op(cut).name))
            : "";
    back.diags().error("train-no-path", module.loc(op), "no derivative of the loss by parameter '{}'{}; freeze it",
                       printable(graph.value(op.inputs[i]).name), why);
  }
  return back.diags().ok();
}

/// Readers of the Gradient read the derivative; zeros where y does not depend on an x.
static void hand_over(Backward& back, OpId gradient) {
  Graph& graph = back.graph();
  const Op op = graph.op(gradient), like = back.backward_of(op);
  Builder build(back.module(), graph, gradient, like);
  for (size_t r = 0; r < op.outputs.size(); ++r) {
    const ValueId x = op.inputs[r], found = back.derivative(x);
    const ValueId made = found ? found : Term(build, x).scalar(0).expand(build.dims(x)).value();
    const std::string name = graph.value(op.outputs[r]).name;
    graph.rename(op.outputs[r], name + "/whole");
    if (back.is_made_here(made)) {
      graph.rename(made, name);
      back.module().primals[name] = like_state(back.module(), x);
    }
    graph.replace_uses(op.outputs[r], made);
  }
  graph.erase(gradient);
}

static void replace_gradient(Module& module, OpId gradient, Diags& diags) {
  const Op op = module.graph.op(gradient);
  BackwardOrigins origins(module);
  const std::vector<ValueId> xs(op.inputs.begin(), op.inputs.begin() + static_cast<long>(op.texts("xs").size()));
  Backward back(module, module.graph, gradient, xs, origins, diags);
  const Op like = back.backward_of(op);
  const ValueId y = op.inputs.back();
  Builder build(module, module.graph, gradient, like);
  back.add(y, Term(build, y).scalar(1).expand(build.dims(y)).value(), like);
  if (back.walk() && has_all_derivatives(back, gradient)) hand_over(back, gradient);
}

/// Nodes of the model that no figure needs are only for the next parameters.
static void mark_update(Module& module) {
  const Graph& graph = module.graph;
  std::vector<ValueId> figures;
  for (const Graph::Output& output : graph.outputs())
    if (module.training->is_figure(output.name)) figures.push_back(output.value);
  const std::vector<bool> is_forward = ancestors_of(graph, figures);
  std::set<uint32_t> of_forward;
  for (const OpId id : graph.order())
    if (is_forward[id.index])
      for (const OriginId origin : graph.op(id).origins) of_forward.insert(origin.index);
  for (uint32_t o = 0; o < module.origins.size(); ++o)
    if (module.origins[o].phase == Phase::Forward && !of_forward.contains(o)) module.origins[o].phase = Phase::Update;
}

/// The place in the schedule that asks for a metric; else, for a module that was read as text, the place of the op that
/// computes it.
static Loc loc_of_metric(const Module& module, const Graph::Output& output, const Schedule& schedule) {
  if (schedule.train)
    for (const MetricRequest& metric : schedule.train->metrics)
      if (metric.name == output.name) return metric.loc;
  return module.loc(module.graph.producer_op(output.value));
}

/// A metric is a number.
static bool has_figures(const Module& module, const Env& env) {
  for (const Graph::Output& output : module.graph.outputs()) {
    const TensorType& type = module.graph.type(output.value);
    const bool is_metric = std::ranges::find(module.training->figures, output.name) != module.training->figures.end();
    if (!is_metric || (type.count() == 1 && (type.dtype == DType::F32 || type.dtype == DType::F64))) continue;
    env.diags.error("train-metric-type", loc_of_metric(module, output, env.schedule),
                    "the metric '{}' is {}: one number of f32 or f64 is needed, such as a mean", printable(output.name),
                    type_text(type, {}));
  }
  return env.diags.ok();
}

void differentiate(Module& module, const Env& env) {
  if (module.training && !has_figures(module, env)) return;
  for (OpId id = module.graph.first(); id && env.diags.ok();) {
    const OpId next = module.graph.next(id);
    if (module.graph.op(id).kind == OpKind::Gradient) replace_gradient(module, id, env.diags);
    id = next;
  }
  if (module.training && env.diags.ok()) mark_update(module);
}

}  // namespace weftc
