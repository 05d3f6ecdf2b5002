#include "passes/sharding/value_peak.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/op_def.h"
#include "ir/plan_walk.h"
#include "passes/cost/cost_model.h"

namespace weftc {

namespace {

/// A value, the step that makes it, and the last one that reads it.
struct Lifetime {
  ValueId value;
  int first, last;
};

/// True for a value between two pointwise ops that is read once: they become one kernel, which keeps it in registers.
bool is_fused_away(const Graph& graph, ValueId value) {
  const auto& uses = graph.value(value).uses;
  return uses.size() == 1 && uses.front().op && category(graph.producer_op(value)) == Category::Pointwise &&
         category(graph.op(uses.front().op)) == Category::Pointwise;
}

/// The bytes of a value's buffer; a single number has no buffer.
int64_t buffer_bytes(int64_t of_value) {
  constexpr int64_t kNumber = 8;
  return of_value <= kNumber ? of_value : round_up_to(of_value, kBufferAlign);
}

/// Values that a program stores twice: a state whose initial value is among the weights.
std::set<ValueId> states_with_weights(const Module& module, const Graph& graph) {
  std::set<ValueId> states;
  for (const State& state : module.states)
    if (state.initial) states.insert(graph.find_value(state.input));
  return states;
}

/// True for a constant that ranks store only in slices: the whole stays in the graph until it is cleaned up.
bool is_dropped(const Graph& graph, ValueId value) {
  return graph.producer_op(value).kind == OpKind::Constant && graph.value(value).uses.empty();
}

/// By value: the state that it becomes, in whose memory a pointwise op writes it.
std::map<ValueId, ValueId> updated_states(const Module& module, const Graph& graph) {
  std::map<ValueId, ValueId> states;
  for (const State& state : module.states)
    for (const Graph::Output& output : graph.outputs())
      if (output.name == state.output && category(graph.producer_op(output.value)) == Category::Pointwise)
        states[output.value] = graph.find_value(state.input);
  return states;
}

std::vector<Lifetime> lives_of(const Module& module, const Graph& graph) {
  const std::map<ValueId, ValueId> states = updated_states(module, graph);
  const std::vector<OpId> order = graph.order();
  const int end = static_cast<int>(order.size());
  std::vector<int> position(graph.op_capacity(), 0);
  for (int at = 0; at < end; ++at) position[order[static_cast<size_t>(at)].index] = at;
  std::vector<int> owner(graph.value_capacity(), -1);  // by value: which life it prolongs
  std::vector<Lifetime> lives;
  for (const OpId id : order)
    for (const ValueId v : graph.op(id).outputs) {
      if (is_dropped(graph, v)) continue;
      const Category kind = category(graph.op(id));
      const bool is_source = kind == Category::Source;
      if (kind == Category::View && graph.op(id).inputs[0]) owner[v.index] = owner[graph.op(id).inputs[0].index];
      if (const auto state = states.find(v); state != states.end() && state->second)
        owner[v.index] = owner[state->second.index];
      if (owner[v.index] < 0) {
        owner[v.index] = static_cast<int>(lives.size());
        lives.push_back({v, is_source ? 0 : position[id.index], is_source ? end : position[id.index]});
      }
      Lifetime& life = lives[static_cast<size_t>(owner[v.index])];
      for (const Use& use : graph.value(v).uses) life.last = std::max(life.last, use.op ? position[use.op.index] : end);
    }
  return lives;
}

/// By position in the order: the number of ops before it that are far from layers that were left out.
std::vector<int> far_ops(const Graph& graph, const LayerCopies& copies) {
  std::vector<int> before = {0};
  for (const OpId id : graph.order())
    before.push_back(before.back() + (!copies.is_far.empty() && copies.is_far[id.index] ? 1 : 0));
  return before;
}

}  // namespace

ValuePeak value_peak(const Module& module, const Graph& graph, const LayerCopies& copies) {
  const std::vector<Lifetime> lives = lives_of(module, graph);
  const std::vector<int> far = far_ops(graph, copies);
  const auto times = [&](const Lifetime& life) {
    const auto first = static_cast<size_t>(life.first), last = static_cast<size_t>(life.last);
    return far[std::min(last + 1, far.size() - 1)] > far[first] ? copies.of(graph.producer(life.value)) : 1;
  };
  int end = 0;
  for (const Lifetime& life : lives) end = std::max(end, life.last);
  const std::set<ValueId> twice = states_with_weights(module, graph);
  std::vector<int64_t> change(static_cast<size_t>(end) + 2, 0);
  for (const Lifetime& life : lives) {
    if (is_fused_away(graph, life.value)) continue;
    const Mesh mesh = module.mesh(graph, graph.producer_op(life.value).place);
    const int64_t bytes =
        times(life) * buffer_bytes(local_bytes(graph.type(life.value), mesh)) * (twice.contains(life.value) ? 2 : 1);
    change[static_cast<size_t>(life.first)] += bytes;
    change[static_cast<size_t>(life.last) + 1] -= bytes;
  }
  ValuePeak peak;
  int64_t now = 0;
  int where = 0;
  for (int t = 0; t <= end; ++t)
    if (now += change[static_cast<size_t>(t)]; now > peak.bytes) peak.bytes = now, where = t;
  for (const Lifetime& life : lives)
    if (life.first <= where && where <= life.last && !is_fused_away(graph, life.value))
      peak.values.push_back(life.value);
  return peak;
}

}  // namespace weftc
