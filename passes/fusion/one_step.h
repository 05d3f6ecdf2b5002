// The condition under which a pass may replace several ops by others.
#pragma once
#include <algorithm>
#include <initializer_list>

#include "ir/graph.h"

namespace weftc {

/// True if the ops run in one step of one program, and the schedule's transforms changed none of them.
inline bool are_of_one_step(const Graph& graph, std::initializer_list<OpId> ids) {
  const Op& first = graph.op(*ids.begin());
  return std::ranges::all_of(ids, [&](OpId id) {
    const Op& op = graph.op(id);
    return op.place == first.place && op.block == first.block && !op.transform;
  });
}

}  // namespace weftc
