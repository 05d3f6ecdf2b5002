// What a kernel's body reads and writes, and where: the facts that the rules of strategies (strategy_rules.h) and the
// generators of text both go by.
#pragma once
#include <optional>
#include <vector>

#include "ir/kernel/digits.h"
#include "ir/plan.h"

namespace weftc {

/// The element of a parameter that a chain of views reads: which parameter, and the position in its memory.
struct Load {
  size_t parameter = 0;
  IndexExpr offset;
};

class KernelBody {
 public:
  /// `place_axes`: how many axes of the kernel's mesh are the rank's; those behind them run in time.
  KernelBody(const Kernel& kernel, size_t place_axes);
  virtual ~KernelBody() = default;

  const Kernel& kernel;
  const Graph& body;

  /// Extents on this rank, in this chunk: bounds.
  Dims dims(ValueId value) const { return buffer_dims(body.type(value), kernel.mesh); }
  Dims dims(const TensorType& type) const { return buffer_dims(type, kernel.mesh); }
  /// The same as index algebra counts them: a run-time length is itself, or the product of others of the kernel.
  IndexDims extents(const TensorType& type) const;
  IndexDims extents(ValueId value) const { return extents(body.type(value)); }
  std::vector<Digit> digits(const TensorType& type, int dim) const { return digits_of(type.layout, dim, kernel.mesh); }
  bool is_time_axis(int axis) const { return axis >= place_axes_; }

  /// Which of the kernel's run-time extents a dimension has; nothing where it is static.
  std::optional<size_t> run_extent_of(const TensorType& type, int dim) const;
  /// A whole length: a number, or one of the kernel's run-time extents.
  Scale scale_of(const Length& length) const;
  /// Whether one of the dimensions `first` to `end` has slices that are not equally long: of several dimensions that
  /// are counted as one, only the outermost can be such.
  bool has_ragged(const TensorType& type, int first, int end) const;
  /// The variable that holds the coordinate on a mesh axis: this rank's, or the chunk.
  std::string coordinate_name(int axis) const;
  /// The coordinate itself: 0 on an axis of one rank.
  virtual IndexExpr coordinate(int axis) const;
  /// Position of an element in the memory of a parameter.
  virtual IndexExpr offset(const Parameter& parameter, const IndexList& index) const;
  /// The parameter of an Input, or of output `number`.
  size_t input_parameter(ValueId input) const;
  size_t output_parameter(size_t number) const { return body.inputs().size() + number; }
  /// The value whose elements the kernel computes for output `number`: the one in front of a last all-gather.
  ValueId computed_value(size_t number) const;

  /// Indices of a view's operand for those of its result; nothing for Concat and Pad, whose elements depend on where
  /// they are, and for what is no view.
  std::optional<IndexList> view_index(ValueId value, const IndexList& index) const;
  /// Nothing where a Concat or Pad decides, or something is computed.
  std::optional<Load> load_of(ValueId value, IndexList index) const;

  /// Axes of the collectives in the body, and how many ranks they join; none: 1.
  std::vector<int64_t> group() const;
  int64_t ranks() const;

 protected:
  /// Finds the scale of each run-time extent, by the names that the extents have in the kernel.
  void find_lengths(const std::vector<std::string>& names);

 private:
  const int place_axes_;
  std::vector<Scale> lengths_;  // by number in Kernel::extents
};

/// The index of an operand of `dims` that is broadcast to the element `index` of a result (ONNX's multidirectional
/// broadcasting: dimensions are matched from the last one, and those of extent 1 repeat).
IndexList broadcast_index(const IndexList& index, const Dims& dims);

/// The run-time extents of a body on a mesh, and of the memory of its parameters, each once and without a name:
/// lengths, each behind the named ones that it is made of, and valid elements of ragged slices.
std::vector<RunExtent> run_extents_of(const Module& module, const Graph& body, const Mesh& mesh,
                                      const std::vector<Parameter>& parameters = {});

/// The result of the one contraction of a body, beside pointwise ops, views and look-ups; nothing where there are
/// several, or other loops.
ValueId contraction_of(const Graph& body);
/// The same of the one running sum.
ValueId scan_of(const Graph& body);

/// For each value behind `root`, the index of the element that is element `index` of root: pointwise ops keep it,
/// Reshape and Transpose move it. Nothing if one of the body's outputs has none.
std::optional<std::vector<std::optional<IndexList>>> indices_behind(const KernelBody& body, ValueId root,
                                                                    const IndexList& index);

/// Attributes of views speak of global positions; slices begin and end at multiples of all blocks (L5), so the local
/// position is the global one divided by the sizes.
int64_t local_position(int64_t position, const TensorType& type, int dim, const Mesh& mesh);

}  // namespace weftc
