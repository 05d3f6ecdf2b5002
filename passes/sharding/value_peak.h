// The point at which most bytes live together if a graph runs in its order.
#pragma once
#include "ir/module.h"
#include "passes/sharding/layer_copies.h"

namespace weftc {

struct ValuePeak {
  int64_t bytes = 0;            // of one rank
  std::vector<ValueId> values;  // that live there
};

/// Sources live all the time, other values from their producer to their last reader. Views share the memory of their
/// operand. A value between two pointwise ops alone is in registers. The result of a pointwise op that updates a state
/// lies in the state's memory. The initial value of a state is among the weights too. Other reuse in place is not
/// counted, so the peak is often a little more than a plan's memory.
///
/// In layers that were left out, only values that live until the ends of the model count: a value that the next layer
/// reads does not live together with one of another layer.
ValuePeak value_peak(const Module& module, const Graph& graph, const LayerCopies& copies = {});

}  // namespace weftc
