// Reads and writes of a kernel's body and their positions. The rules of strategies (strategy_rules.h) and the code
// generators both use it.
#pragma once
#include <optional>
#include <vector>

#include "ir/kernel/digits.h"
#include "ir/plan.h"

namespace weftc {

/// The element of a parameter that a chain of views reads, and its position in memory.
struct Load {
  size_t parameter = 0;
  IndexExpr offset;
};

class KernelBody {
 public:
  /// `place_axes`: the number of axes of the kernel's mesh that are the rank's; later axes are time.
  KernelBody(const Kernel& kernel, size_t place_axes);
  virtual ~KernelBody() = default;

  const Kernel& kernel;
  const Graph& body;

  /// Extents on this rank, in this chunk: bounds.
  Dims dims(ValueId value) const { return buffer_dims(body.type(value), kernel.mesh); }
  Dims dims(const TensorType& type) const { return buffer_dims(type, kernel.mesh); }
  /// The same in index algebra: a run-time length is itself, or the product of others of the kernel.
  IndexDims extents(const TensorType& type) const;
  IndexDims extents(ValueId value) const { return extents(body.type(value)); }
  std::vector<Digit> digits(const TensorType& type, int dim) const { return digits_of(type.layout, dim, kernel.mesh); }
  bool is_time_axis(int axis) const { return axis >= place_axes_; }

  /// The kernel's run-time extent that a dimension has; nothing for a static one.
  std::optional<size_t> run_extent_of(const TensorType& type, int dim) const;
  /// A whole length: a number, or one of the kernel's run-time extents.
  Scale scale_of(const Length& length) const;
  /// Whether one of the dimensions `first` to `end` has slices of unequal length. If dimensions are counted as one,
  /// only the outermost may have them.
  bool has_ragged(const TensorType& type, int first, int end) const;
  /// Name of the variable with the coordinate on a mesh axis: this rank's, or the chunk.
  std::string coordinate_name(int axis) const;
  /// The coordinate itself: 0 on an axis of one rank.
  virtual IndexExpr coordinate(int axis) const;
  /// Position of an element in the memory of a parameter.
  virtual IndexExpr offset(const Parameter& parameter, const IndexList& index) const;
  /// The parameter of an Input, or of output `number`.
  size_t input_parameter(ValueId input) const;
  size_t output_parameter(size_t number) const { return body.inputs().size() + number; }
  /// The value that the kernel computes for output `number`: the operand of a last all-gather, if there is one.
  ValueId computed_value(size_t number) const;

  /// Indices of a view's operand for those of its result. Nothing for Concat and Pad, whose source depends on the
  /// index, and for ops that are not views.
  std::optional<IndexList> view_index(ValueId value, const IndexList& index) const;
  /// Nothing if a Concat, a Pad or a computation is in between.
  std::optional<Load> load_of(ValueId value, IndexList index) const;

  /// Axes of the collectives in the body, and the number of ranks that they join; 1 without collectives.
  std::vector<int64_t> group() const;
  int64_t ranks() const;

 protected:
  /// Finds the scale of each run-time extent, by the names of the extents in the kernel.
  void find_lengths(const std::vector<std::string>& names);

 private:
  const int place_axes_;
  std::vector<Scale> lengths_;  // by number in Kernel::extents
};

/// The index of an operand of `dims` that is broadcast to the element `index` of a result (ONNX's multidirectional
/// broadcasting: dimensions are matched from the last one, and those of extent 1 repeat).
IndexList broadcast_index(const IndexList& index, const Dims& dims);

/// The run-time extents of a body on a mesh, and of the memory of its parameters, each once and without a name. They
/// are lengths, each after the named ones that it is computed from, and valid elements of ragged slices.
std::vector<RunExtent> run_extents_of(const Module& module, const Graph& body, const Mesh& mesh,
                                      const std::vector<Parameter>& parameters = {});

/// The result of the body's one contraction, besides pointwise ops, views and look-ups. Nothing if there are several,
/// or other loops.
ValueId contraction_of(const Graph& body);
/// The same for the one running sum.
ValueId scan_of(const Graph& body);

/// For each value computed from `root`, the index of the element that corresponds to element `index` of root. Pointwise
/// ops keep it; Reshape and Transpose move it. Nothing if one of the body's outputs has no such index.
std::optional<std::vector<std::optional<IndexList>>> indices_after(const KernelBody& body, ValueId root,
                                                                   const IndexList& index);

/// Attributes of views use global positions. Slices begin and end at multiples of all blocks (L5), so the local
/// position is the global one divided by the sizes.
int64_t local_position(int64_t position, const TensorType& type, int dim, const Mesh& mesh);

}  // namespace weftc
