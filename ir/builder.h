// Adds ops with inferred types in front of a given op; what decompositions and passes write graphs with.
#pragma once
#include <string>
#include <vector>

#include "ir/op_def.h"

namespace weftc {

class Builder {
 public:
  /// New ops stand before `before` (none: at the end) of `graph`, and take place, origins and transform from `like`.
  Builder(Module& module, Graph& graph, OpId before, const Op& like);

  /// An op with one result; its name is `like`'s name + "/" + kind (the record's name). Types are inferred: operands
  /// that its record refuses are our bug, but those of a decomposition, which decompose_op reports.
  ValueId op(OpKind kind, std::vector<ValueId> inputs, Attrs attrs = {});
  /// The same with any number of results.
  std::vector<ValueId> ops(OpKind kind, std::vector<ValueId> inputs, Attrs attrs, int results);
  /// An op that owns graphs, whose values have their types.
  std::vector<ValueId> region_op(OpKind kind, std::vector<ValueId> inputs, Attrs attrs, std::vector<Graph> regions,
                                 int results);
  /// Writes a region of such an op; names of its ops begin with this builder's and `part`.
  Builder inside(Graph& region, const std::string& part) const;
  /// One more parameter of the region that is written.
  ValueId parameter(const std::string& name, TensorType type);
  /// A Constant op of this tensor.
  ValueId constant(const Tensor& tensor);
  /// The length as a scalar of int64.
  ValueId length(const Length& length);
  /// A dimension of as many elements as `count`, a scalar of int64, which is at most `bound`: a new length that is
  /// named after this builder's op; where it is at most 0, a fixed one.
  Extent counted_extent(ValueId count, int64_t bound);
  /// A scalar of the same dtype as `like_value`.
  ValueId scalar(ValueId like_value, double value);
  /// A Constant op of one dimension of int64.
  ValueId ints(const std::vector<int64_t>& values);

  // Neither cast nor reduce adds an op where it would change nothing (the same dtype, no axes).
  ValueId reshape(ValueId x, const Dims& dims);
  /// The same where it is known which run-time lengths the dimensions have: bounds may not say it.
  ValueId reshape_to(ValueId x, const Shape& shape);
  ValueId transpose(ValueId x, const std::vector<int64_t>& perm);
  /// A value that was just built, with the run-time lengths of `shape`, whose bounds are its extents. The shape is a
  /// copy: one that lies in the graph moves when the value is built.
  ValueId with_lengths(ValueId x, Shape shape);
  ValueId cast(ValueId x, DType to);
  ValueId reduce(OpKind kind, ValueId x, const std::vector<int64_t>& axes, bool keepdims);

  const TensorType& type(ValueId v) const { return graph_.type(v); }
  Dims dims(ValueId v) const { return graph_.type(v).dims(); }
  Module& module() { return module_; }
  Graph& graph() { return graph_; }

 private:
  Builder(const Builder& around, Graph& region);
  friend std::vector<ValueId> decompose_op(Module&, Graph&, OpId, Diags*, const ShapeValues*);
  /// Adds it in front of the others to come, with types by inference.
  std::vector<ValueId> add(NewOp made);

  Module& module_;
  Graph& graph_;
  OpId before_;
  std::string name_;
  PlaceId place_;
  std::vector<OriginId> origins_;
  TransformId transform_;
  bool has_given_operands_ = false;  // of a decomposition: the model's, whose bounds may differ
};

/// Builds the replacement of an op in front of it: one value for each output, empty after reporting. The caller
/// replaces the uses, passes on the result's name and erases the op; what was built may itself need decomposition.
std::vector<ValueId> decompose_op(Module& module, Graph& graph, OpId id, Diags* diags,
                                  const ShapeValues* shapes = nullptr);

/// Copies a region's ops in front of `before` (none: at the end) of a graph, with parameters replaced by `arguments`;
/// the values of its outputs.
std::vector<ValueId> inline_region(Graph& graph, const Graph& region, const std::vector<ValueId>& arguments,
                                   OpId before = {});

/// A dtype as the value of an attribute: casts carry `to` as our DType's number, not as ONNX's.
int64_t dtype_attr(DType dtype);
DType dtype_of_attr(int64_t value);

}  // namespace weftc
