// Adds ops with inferred types before a given op. Decompositions and passes write graphs with it.
#pragma once
#include <string>
#include <vector>

#include "ir/op_def.h"

namespace weftc {

class Builder {
 public:
  /// New ops are inserted before `before` (none: at the end) of `graph`, and take place, origins and transform from
  /// `like`.
  Builder(Module& module, Graph& graph, OpId before, const Op& like);

  /// Adds an op with one result. Its name is `like`'s name + "/" + kind (the record's name). Its type is inferred.
  /// Operands that the record refuses are a bug of the caller; decompose_op reports them in a decomposition.
  ValueId op(OpKind kind, std::vector<ValueId> inputs, Attrs attrs = {});
  /// The same with any number of results.
  std::vector<ValueId> ops(OpKind kind, std::vector<ValueId> inputs, Attrs attrs, int results);
  /// Adds an op that owns graphs; its results have the types of their outputs.
  std::vector<ValueId> region_op(OpKind kind, std::vector<ValueId> inputs, Attrs attrs, std::vector<Graph> regions,
                                 int results);
  /// Writes a region of such an op; names of its ops begin with this builder's and `part`.
  Builder inside(Graph& region, const std::string& part) const;
  /// Adds a parameter to the region that is being written.
  ValueId parameter(const std::string& name, TensorType type);
  /// A Constant op of this tensor.
  ValueId constant(const Tensor& tensor);
  /// The length as a scalar of int64.
  ValueId length(const Length& length);
  /// A dimension of `count` elements, where `count` is a scalar of int64 and at most `bound`. It is a new length that
  /// is named after this builder's op. If `bound` is 0, it is a fixed extent of 0.
  Extent counted_extent(ValueId count, int64_t bound);
  /// A scalar of the same dtype as `like_value`.
  ValueId scalar(ValueId like_value, double value);
  /// A Constant op of one dimension of int64.
  ValueId ints(const std::vector<int64_t>& values);

  // cast and reduce add no op that would change nothing (the same dtype, no axes).
  ValueId reshape(ValueId x, const Dims& dims);
  /// The same for a caller that knows the run-time lengths of the dimensions, which the bounds alone may not tell.
  ValueId reshape_to(ValueId x, const Shape& shape);
  ValueId transpose(ValueId x, const std::vector<int64_t>& perm);
  /// Gives a new value the run-time lengths of `shape`, whose bounds are its extents. `shape` is a copy, because a
  /// shape in the graph may move when ops are added.
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
  /// Adds an op before `before_` and infers its types.
  std::vector<ValueId> add(NewOp made);

  Module& module_;
  Graph& graph_;
  OpId before_;
  std::string name_;
  PlaceId place_;
  std::vector<OriginId> origins_;
  TransformId transform_;
  bool has_given_operands_ = false;  // in a decomposition, operands come from the model: their bounds may differ
};

/// Builds the replacement of an op before that op. Returns one value for each output, or nothing after reporting an
/// error. The caller replaces the uses, passes on the result's name and erases the op. The new ops may themselves need
/// decomposition.
std::vector<ValueId> decompose_op(Module& module, Graph& graph, OpId id, Diags* diags,
                                  const ShapeValues* shapes = nullptr);

/// Copies a region's ops into a graph before `before` (none: at the end), with parameters replaced by `arguments`.
/// Returns the values of the region's outputs.
std::vector<ValueId> inline_region(Graph& graph, const Graph& region, const std::vector<ValueId>& arguments,
                                   OpId before = {});

/// A dtype as an attribute's value: casts carry `to` as Weft's DType number, not as ONNX's.
int64_t dtype_attr(DType dtype);
DType dtype_of_attr(int64_t value);

}  // namespace weftc
