// Adds ops to a graph with types by inference, so that whoever writes a graph cannot give an op a type that its
// record would not.
#include "ir/builder.h"

#include "ir/base/check.h"
#include "ir/length_values.h"

namespace weftc {

int64_t dtype_attr(DType dtype) { return static_cast<int64_t>(dtype); }

DType dtype_of_attr(int64_t value) {
  WEFT_CHECK(value >= 0 && value <= static_cast<int64_t>(DType::Bool), "attribute is no dtype");
  return static_cast<DType>(value);
}

Builder::Builder(Module& module, Graph& graph, OpId before, const Op& like)
    : module_(module),
      graph_(graph),
      before_(before),
      name_(like.name),
      place_(like.place),
      origins_(like.origins),
      transform_(like.transform) {}

std::vector<ValueId> Builder::ops(OpKind kind, std::vector<ValueId> inputs, Attrs attrs, int results) {
  NewOp made;
  made.kind = kind;
  made.inputs = std::move(inputs);
  made.results.resize(results);
  made.attrs = std::move(attrs);
  return add(std::move(made));
}

std::vector<ValueId> Builder::add(NewOp made) {
  const OpKind kind = made.kind;
  made.place = place_;
  made.name = name_ + "/" + op_def(kind).name;
  made.origins = origins_;
  made.transform = transform_;
  const OpId id = graph_.add(std::move(made), before_);
  Diags diags;
  const bool inferred = infer_op(module_, graph_, id, &diags);
  WEFT_CHECK(inferred, "illegal op built: " + diags.text());
  WEFT_CHECK(count_lengths(module_, graph_, id), "op '" + name_ + "' of a region has a new run-time length");
  return graph_.op(id).outputs;
}

ValueId Builder::op(OpKind kind, std::vector<ValueId> inputs, Attrs attrs) {
  return ops(kind, std::move(inputs), std::move(attrs), 1)[0];
}

ValueId Builder::constant(const Tensor& tensor) {
  return op(OpKind::Constant, {}, {{"value", module_.constants.add(name_ + "/Constant", tensor)}});
}

ValueId Builder::scalar(ValueId like_value, double value) {
  return constant(Tensor::scalar(type(like_value).dtype, value));
}
ValueId Builder::ints(const std::vector<int64_t>& values) { return constant(Tensor::ints(values)); }
ValueId Builder::reshape(ValueId x, const Dims& dims) {
  return op(OpKind::Reshape, {x}, {{"allowzero", int64_t{1}}, {"shape", dims}});
}
ValueId Builder::reshape_to(ValueId x, const Shape& shape) {
  NewOp made;
  made.kind = OpKind::Reshape;
  made.inputs = {x};
  made.results = {{type(x).dtype, shape, {}}};
  made.attrs = {{"allowzero", int64_t{1}}, {"shape", bounds(shape)}};
  return add(std::move(made))[0];
}
ValueId Builder::transpose(ValueId x, const std::vector<int64_t>& perm) {
  return op(OpKind::Transpose, {x}, {{"perm", perm}});
}

ValueId Builder::with_lengths(ValueId x, const Shape& shape) {
  TensorType type = graph_.type(x);
  WEFT_CHECK(bounds(shape) == type.dims(), "run-time lengths of another shape");
  type.shape = shape;
  graph_.retype(x, std::move(type));
  return x;
}

ValueId Builder::cast(ValueId x, DType to) {
  return type(x).dtype == to ? x : op(OpKind::Cast, {x}, {{"to", dtype_attr(to)}});
}

ValueId Builder::reduce(OpKind kind, ValueId x, const std::vector<int64_t>& axes, bool keepdims) {
  if (axes.empty()) return x;
  return op(kind, {x}, {{"axes", axes}, {"keepdims", int64_t{keepdims}}});
}

std::vector<ValueId> decompose_op(Module& module, Graph& graph, OpId id, Diags* diags, const ShapeValues* shapes) {
  const Op copy = graph.op(id);
  Builder build(module, graph, id, copy);
  return op_def(copy).decompose(build, OpView(module, graph, copy, diags, shapes));
}

}  // namespace weftc
