// Which ops of a graph become one kernel: the decisions of fuse-regions, made on a const graph.
#pragma once
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/op_def.h"
#include "ir/target.h"
#include "passes/fusion/kernel_values.h"

namespace weftc {

/// One kernel to be: ops in graph order. Views and literals that members read are not listed; they come along.
struct FusionGroup {
  Category category = Category::Pointwise;
  OpId root;  // what the kernel is named after
  std::vector<OpId> members;
};

struct Fusion {
  std::vector<FusionGroup> groups;       // in the order of their last member
  std::vector<int> group_of;             // by op index; -1: in no kernel, or repeated in each that reads it
  std::vector<bool> alias;               // by op index: a Reshape outside kernels, the same memory under another shape
  std::vector<std::string> near_misses;  // what was not fused, and why
};

/// Made again by each reader: load views and literals that are in no group, index patterns.
bool is_carried_along(const Graph& graph, const Fusion& fusion, OpId id);

/// `region`: the results of the graph must not be its parameters' memory.
Fusion decide_fusion(const Module& module, const Graph& graph, const Target& target, bool region = false);
/// One line a kernel, then the near misses.
std::string fusion_text(const Graph& graph, const Fusion& fusion);

}  // namespace weftc
