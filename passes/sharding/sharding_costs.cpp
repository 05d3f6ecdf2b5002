#include "passes/sharding/sharding_costs.h"

#include <cmath>

#include "ir/exchange_types.h"
#include "ir/op_def.h"
#include "passes/layout/reshard.h"

namespace weftc {

namespace {

constexpr double kPicoseconds = 1e12;
constexpr int64_t kCut = 1, kOfReader = 1000;

int64_t picoseconds(double seconds) { return std::llround(seconds * kPicoseconds); }

/// The op of `id` alone in a graph, with operands and results in the layouts of a choice.
Graph alone(const Graph& graph, OpId id, const OpChoice& choice) {
  const Op& op = graph.op(id);
  Graph made;
  NewOp copy = copy_of(op);
  const auto typed = [&](ValueId v, const Layout& layout) {
    TensorType type = graph.type(v);
    type.layout = layout;
    return type;
  };
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!op.inputs[i]) {
      copy.inputs.emplace_back();
      continue;
    }
    NewOp input;
    input.kind = OpKind::Input, input.name = "operand", input.place = op.place;
    input.results = {typed(op.inputs[i], choice.operands[i])};
    copy.inputs.push_back(made.result(made.add(std::move(input))));
  }
  for (size_t r = 0; r < op.outputs.size(); ++r) copy.results.push_back(typed(op.outputs[r], choice.results[r]));
  made.add(std::move(copy));
  return made;
}

/// True for ops that become kernels of their own, which read their operands from memory.
bool reads_memory(const Op& op) {
  const Category kind = category(op);
  return kind == Category::Contraction || kind == Category::Reduction || kind == Category::Scan;
}

int64_t computing_in(const Module& module, const Graph& graph, const Op& op, const Mesh& mesh, Ceilings ceilings) {
  const Category kind = category(op);
  if (kind == Category::View || kind == Category::Source || kind == Category::Region) return 0;
  Work work = work_alone(module, graph, op, mesh, ceilings.function);
  if (!reads_memory(op)) {
    work.bytes = 0;
    for (const ValueId v : op.outputs) work.bytes += local_bytes(graph.type(v), mesh);
  }
  ceilings.step = 0;
  return picoseconds(cost_of(work, ceilings).seconds);
}

std::string text_of(const TensorType& type, const Layout& to) {
  std::string text = std::to_string(dtype_bytes(type.dtype));
  for (const Extent& extent : type.shape) text += "x" + std::to_string(extent.bound);
  const auto add = [&](const Layout& layout) {
    text += "|";
    for (int axis = 0; axis < layout.size(); ++axis) text += state_text(layout[axis]) + " ";
  };
  add(type.layout), add(to);
  return text;
}

int64_t seconds_of(const ReshardStep& step, int64_t before, int64_t after, const ExchangeSeconds& exchange) {
  return step.kind == OpKind::ShardSlice ? kCut : picoseconds(exchange(step.kind, before, after, step.axes));
}

}  // namespace

ExchangeSeconds exchange_seconds_on(const Machine& machine, const Mesh& mesh) {
  return [&machine, mesh](OpKind kind, int64_t before, int64_t after, const std::vector<int>& axes) {
    return collective_seconds(machine, kind, before, after, group_of(machine, mesh, axes)) + machine.ceilings.step;
  };
}

ShardingCosts::ShardingCosts(const Module& module, const Graph& graph, Mesh mesh, Ceilings ceilings,
                             ExchangeSeconds exchange)
    : module_(module),
      graph_(graph),
      mesh_(std::move(mesh)),
      ceilings_(std::move(ceilings)),
      exchange_(std::move(exchange)) {}

int64_t ShardingCosts::computing(OpId id, const OpChoice& choice) const {
  const Graph own = alone(graph_, id, choice);
  OpId last = own.first();
  while (own.next(last)) last = own.next(last);
  return computing_in(module_, own, own.op(last), mesh_, ceilings_);
}

int64_t ShardingCosts::resharding(const TensorType& from, const Layout& to) const {
  if (from.layout == to) return 0;
  const auto [at, is_new] = known_.emplace(text_of(from, to), 0);
  if (!is_new) return at->second;
  TensorType now = from;
  int64_t cost = 0;
  for (const ReshardStep& step : reshard_steps(from, to, mesh_)) {
    const int64_t before = bytes(now);
    now.layout = step.layout;
    cost += seconds_of(step, before, bytes(now), exchange_);
  }
  return at->second = cost;
}

int64_t ShardingCosts::resharding_for_reader(const TensorType& from, const Layout& to) const {
  const int64_t cost = resharding(from, to);
  if (cost == 0) return 0;
  return cost + (cost <= kCut * from.ndim() ? kCut : kOfReader);
}

void for_each_cost(const Module& module, const Graph& graph, const Ceilings& ceilings, const ExchangeSeconds& exchange,
                   const UseCost& use) {
  for (const OpId id : graph.order()) {
    const Op& op = graph.op(id);
    const Mesh mesh = module.mesh(graph, op.place);
    if (category(op) != Category::Collective)
      use(id, computing_in(module, graph, op, mesh, ceilings));
    else
      use(id, seconds_of({op.kind, axes_of(op), {}}, local_bytes(graph.type(op.inputs[0]), mesh),
                         local_bytes(graph.type(op.outputs[0]), mesh), exchange));
  }
}

int64_t laid_out_cost(const Module& module, const Graph& graph, const Ceilings& ceilings,
                      const ExchangeSeconds& exchange, const LayerCopies& copies) {
  int64_t cost = 0;
  for_each_cost(module, graph, ceilings, exchange,
                [&](OpId id, int64_t picoseconds) { cost += copies.of(id) * picoseconds; });
  return cost;
}

}  // namespace weftc
