// The slices of each value that a plan may choose between: those that some op makes or reads as a whole. A slice is
// worth considering if it slices a loop of an op, and wherever ops carry it from there. So come the parts of a fused
// projection, which no one lists:
//
//   %q = Slice(%qkv) of columns 0 to 63      %q sliced by heads: S(1,16)
//   %qkv = MatMul(%x, %w)               ->   %qkv, %w sliced by heads of each part: S(1,16) of 192 columns
#pragma once
#include <vector>

#include "passes/sharding/layer_classes.h"

namespace weftc {

/// By value, then by axis of its place: states of kind S. Empty for axes of size 1, and for values of which no op keeps
/// a slice.
class SliceCandidates {
 public:
  /// They include those of the kept entries. Values of one class have the same ones.
  SliceCandidates(const Module& module, const Graph& graph, const LayerClasses& classes, const KeptLayouts& kept);

  const std::vector<AxisState>& of(ValueId value, int axis) const;

 private:
  struct Slice {
    ValueId value;
    int axis;
    AxisState state;
  };
  void add(const Slice& slice);
  void add_loops(OpId id);
  void add_kept(ValueId value, const Layout& layout);
  void add_operands(OpId id, size_t input, int axis, const AxisState& state);
  void carry_forwards(const Slice& slice);
  void carry_to(OpId reader, size_t input, const Slice& slice);
  void carry_backwards(const Slice& slice);
  Mesh mesh(OpId id) const { return module_.mesh(graph_, graph_.op(id).place); }
  const std::vector<OpId>& members(OpId id) const { return classes_.class_of(id).ops; }
  ValueId first_of_class(ValueId value) const;

  const Module& module_;
  const Graph& graph_;
  const LayerClasses& classes_;
  std::vector<std::vector<std::vector<AxisState>>> found_;  // by the first value of a class, axis
  std::vector<Slice> left_;                                 // with neighbours that have not been visited
};

/// True for an op whose operands and results are laid out by rules: it has a factor rule or is a view.
bool is_settled(const Op& op);

}  // namespace weftc
