// State that all ways of growing a group share while one graph is cut into kernels: the group of each op, which groups
// may still be merged, and what lies in memory. A way of growing (grow.h) starts a group at an op and adds others. It
// asks here whether an op is free and whether a merge keeps the graph of kernels acyclic:
//
//   a -> b -> c with a, c in one kernel and b outside of it: the kernel would have to run before and after b. Refused.
#pragma once
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/op_def.h"
#include "ir/target.h"
#include "passes/fusion/fusion.h"
#include "passes/fusion/fusion_memory.h"
#include "passes/fusion/loop_shape.h"
#include "passes/fusion/quotient.h"

namespace weftc {

/// Larger kernels compile slowly and spill registers.
constexpr int kMostMembers = 128;

/// Ops that a pointwise kernel evaluates element by element, but whose operands must be in memory, because it reads
/// them at other indices than the element's own.
bool is_loading_kind(OpKind kind);

class FusionState {
 public:
  /// `region`: the graph is the body of another op.
  FusionState(const Module& module, const Graph& graph, bool region, const Target& target);

  const Module& module() const { return module_; }
  const Graph& graph() const { return graph_; }
  const Target& target() const { return target_; }
  const std::vector<OpId>& order() const { return order_; }
  const Op& op(OpId id) const { return graph_.op(id); }
  int position(OpId id) const { return position_[id.index]; }

  /// True if the op is in a group.
  bool taken(OpId id) const { return group_of(id) >= 0; }
  /// The group of the op, or -1.
  int group_of(OpId id) const { return fusion_.group_of[id.index]; }
  const FusionGroup& group(int g) const { return fusion_.groups[g]; }

  /// True for ops that become part of one kernel or stay outside of kernels. False for inputs, constants, run-time
  /// lengths, and patterns and views that each kernel computes for itself while loading.
  bool has_node(OpId id) const { return memory_.node_of[id.index] >= 0; }
  /// True if the op must become part of a kernel.
  bool computes(OpId id) const;
  /// True if the op can be in a pointwise kernel: one element of its result is computed at a time.
  bool is_pointwise(OpId id) const;
  /// True for a view that must lie in memory because its reader is no kernel: a kernel copies it.
  bool is_copy(OpId id) const;
  /// True for a Reshape between ops that are no kernels: the same memory under another shape.
  bool is_alias(OpId id) const { return memory_.alias[id.index]; }
  /// True if the op computes elements from operands that it must find in memory.
  bool is_loading(OpId id) const { return is_loading_kind(op(id).kind) || is_copy(id); }

  /// False for a late op and one that is not: the kernel would keep recomputed values in memory.
  bool may_share_kernel(OpId a, OpId b) const { return module_.is_late(op(a)) == module_.is_late(op(b)); }

  /// The value in memory that `value` shows through views which its reader computes while loading.
  ValueId loaded(ValueId value) const;
  /// The loops over the op's first result.
  LoopShape loop_of(OpId id) const { return loop_shape(graph_.type(op(id).outputs[0]), op(id)); }
  /// True if the op reads a value of group `g` through a view, or while loading. Such an op cannot join `g`: the value
  /// is not in memory until the kernel has ended.
  bool loads_from(OpId id, int g) const;

  /// A new group of one op.
  int start(OpId id, Category category);
  /// Puts an op into a group. The caller has merged the nodes of both.
  void put(OpId id, int g);
  /// Joins the kernels of two ops, unless that made a cycle through another kernel.
  bool merge(OpId a, OpId b) { return quotient_.merge(memory_.node_of[a.index], memory_.node_of[b.index]); }
  /// Gives a view that had no node the node of `other`, whose kernel now writes the view's result.
  void share_node(OpId view, OpId other) { memory_.node_of[view.index] = memory_.node_of[other.index]; }
  /// Empties a group whose members went into another one.
  void dissolve(int g) { fusion_.groups[g].members.clear(); }
  /// Notes for `explain` that an op stays out of a kernel because of `why`.
  void miss(OpId id, int g, const std::string& why);

  /// The groups: members in graph order, groups in the order of their last members. The state is used up.
  Fusion finish();

 private:
  void add_edges();
  void add_edge(ValueId value, int to);
  bool is_earlier(OpId a, OpId b) const { return position(a) < position(b); }

  const Module& module_;
  const Graph& graph_;
  const Target& target_;
  std::vector<OpId> order_;
  std::vector<int> position_;  // by op index: its position in the order
  FusionMemory memory_;
  Fusion fusion_;
  Quotient quotient_;
};

}  // namespace weftc
