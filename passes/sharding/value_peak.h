// Where most bytes live together if a graph runs in its order.
#pragma once
#include "ir/module.h"
#include "passes/sharding/layer_copies.h"

namespace weftc {

struct ValuePeak {
  int64_t bytes = 0;            // of one rank
  std::vector<ValueId> values;  // that live there
};

/// Sources live all the time, other values from their producer to their last reader; views share the memory of what
/// they view, and what stands between two pointwise ops alone is in registers, and what a pointwise op makes of a state
/// lies in its memory; what a state begins as is among the weights, too. Without any reuse in place, so often a little
/// more than a plan's memory. Of layers that were left out those values count that live until the ends of the model:
/// one that the next layer reads lives beside none of another layer.
ValuePeak value_peak(const Module& module, const Graph& graph, const LayerCopies& copies = {});

}  // namespace weftc
