// Which ops of a graph become one kernel: the decisions of fuse-regions, made on a const graph.
#pragma once
#include <string>

#include "ir/module.h"
#include "ir/target.h"
#include "passes/fusion/fusion.h"
#include "passes/fusion/kernel_values.h"

namespace weftc {

/// Made again by each reader: load views and literals that are in no group, index patterns.
bool is_carried_along(const Graph& graph, const Fusion& fusion, OpId id);

/// `region`: the results of the graph must not be its parameters' memory.
Fusion decide_fusion(const Module& module, const Graph& graph, const Target& target, bool region = false);
/// One line a kernel, then the near misses.
std::string fusion_text(const Graph& graph, const Fusion& fusion);

}  // namespace weftc
