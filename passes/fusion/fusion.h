// The decision of fuse-regions: which ops become one kernel. It is made on a const graph (fusion_groups.h), by groups
// that grow (fusion_state.h, grow.h), and then written into the graph (fuse_regions.cpp).
#pragma once
#include <string>
#include <vector>

#include "ir/op_def.h"

namespace weftc {

/// One kernel to be: ops in graph order. Views and literals that members read are not listed; they come along.
struct FusionGroup {
  Category category = Category::Pointwise;
  OpId root;  // the kernel is named after it
  std::vector<OpId> members;
};

struct Fusion {
  std::vector<FusionGroup> groups;       // in the order of their last member
  std::vector<int> group_of;             // by op index; -1: in no kernel, or repeated in each kernel that reads it
  std::vector<bool> alias;               // by op index: a Reshape outside kernels, the same memory under another shape
  std::vector<std::string> near_misses;  // reasons why ops were not fused
};

}  // namespace weftc
