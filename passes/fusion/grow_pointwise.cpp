// Grows kernels of pointwise ops over one shape. An op joins the kernels that made its operands, which become one:
//
//   a = Relu(x)    b = Exp(y)    c = Add(a, b)      ->     one kernel:  for i: c = relu(x[i]) + exp(y[i])
//
// Gathers, concatenations, paddings and copies of views compute elements too, but read operands at other indices, so
// these operands must lie in memory: such an op starts a kernel, and others join it.
#include "passes/fusion/grow.h"

namespace weftc {

namespace {

/// Adds the op, or its group, to group `g`, or notes why that is not legal. Each of the two kernels could be the one
/// that loads a value of the other through a view.
void join_group(FusionState& state, OpId id, int g) {
  const int own = state.group_of(id);
  if (own == g) return;
  const std::vector<OpId> moved = own < 0 ? std::vector<OpId>{id} : state.group(own).members;
  const OpId root = state.group(g).root;
  if (moved.size() + state.group(g).members.size() > kMostMembers)
    return state.miss(id, g, "the kernel would be too large");
  for (OpId m : moved)
    if (state.loads_from(m, g)) return state.miss(m, g, "it reads a value of it through a view");
  if (own >= 0)
    for (OpId m : state.group(g).members)
      if (state.loads_from(m, own)) return state.miss(m, own, "it reads a value of it through a view");
  if (!state.merge(root, id)) return state.miss(id, g, "that made a cycle through another kernel");
  for (OpId m : moved) state.put(m, g);
  if (own >= 0) state.dissolve(own);
}

}  // namespace

void grow_pointwise(FusionState& state, OpId id) {
  const LoopShape loop = state.loop_of(id);
  const bool loading = state.is_loading(id);
  if (!loading && state.op(id).outputs.size() == 1)
    for (ValueId v : state.op(id).inputs) {
      if (!v) continue;
      const OpId producer = state.graph().producer(v);
      const int g = state.group_of(producer);
      if (g < 0 || state.group(g).category != Category::Pointwise || !(state.loop_of(producer) == loop)) continue;
      if (!state.may_share_kernel(producer, id)) continue;
      join_group(state, id, g);
    }
  if (!state.taken(id)) state.start(id, Category::Pointwise);
}

}  // namespace weftc
