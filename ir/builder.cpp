// Adds ops to a graph and infers their types, so that a caller cannot give an op a type that its record would not.
#include "ir/builder.h"

#include <algorithm>

#include "ir/base/check.h"
#include "ir/tied_extents.h"

namespace weftc {

namespace {
/// Thrown when an op's record refuses its operands. That is a bug of the caller, except in a decomposition, whose
/// operands come from the model.
struct IllegalOp : InternalError {
  IllegalOp(OpKind built, const Diags& complaints)
      : InternalError("illegal op built: " + complaints.text()), kind(built), diags(complaints) {}
  OpKind kind;
  Diags diags;
};
}  // namespace

int64_t dtype_attr(DType dtype) { return static_cast<int64_t>(dtype); }

DType dtype_of_attr(int64_t value) {
  WEFT_CHECK(value >= 0 && value <= kLastDType, "attribute is no dtype");
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
  return region_op(kind, std::move(inputs), std::move(attrs), {}, results);
}

std::vector<ValueId> Builder::region_op(OpKind kind, std::vector<ValueId> inputs, Attrs attrs,
                                        std::vector<Graph> regions, int results) {
  NewOp made{};
  made.kind = kind;
  made.inputs = std::move(inputs);
  made.results.resize(results);
  made.attrs = std::move(attrs);
  made.regions = std::move(regions);
  return add(std::move(made));
}

Builder Builder::inside(Graph& region, const std::string& part) const {
  Builder inner(*this, region);
  inner.name_ += "/" + part;
  return inner;
}

ValueId Builder::parameter(const std::string& name, TensorType type) {
  type.layout = {};
  NewOp made{};
  made.kind = OpKind::Input;
  made.results = {std::move(type)};
  made.place = place_;
  made.name = name_ + "/" + name;
  made.origins = origins_;
  made.transform = transform_;
  return graph_.result(graph_.add(std::move(made)));
}

std::vector<ValueId> Builder::add(NewOp made) {
  const OpKind kind = made.kind;
  made.place = place_;
  made.name = name_ + "/" + op_def(kind).name;
  made.origins = origins_;
  made.transform = transform_;
  const OpId id = graph_.add(std::move(made), before_);
  Diags diags;
  if (!infer_op(module_, graph_, id, &diags)) throw IllegalOp(kind, diags);
  if (has_given_operands_ && !has_equal_bounds(OpView(module_, graph_, graph_.op(id), &diags)))
    throw IllegalOp(kind, diags);
  return graph_.op(id).outputs;
}

Builder::Builder(const Builder& around, Graph& region)
    : module_(around.module_),
      graph_(region),
      name_(around.name_),
      place_(around.place_),
      origins_(around.origins_),
      transform_(around.transform_),
      has_given_operands_(around.has_given_operands_) {}

ValueId Builder::op(OpKind kind, std::vector<ValueId> inputs, Attrs attrs) {
  return ops(kind, std::move(inputs), std::move(attrs), 1)[0];
}

ValueId Builder::constant(const Tensor& tensor) {
  return op(OpKind::Constant, {}, {{"value", module_.constants.add(name_ + "/Constant", tensor)}});
}

ValueId Builder::length(const Length& length) {
  if (!length.is_constant()) return op(OpKind::LengthOf, {}, {{"length", length.text()}});
  return constant(Tensor::scalar(DType::I64, static_cast<double>(length.constant())));
}

/// A new named length, whose value at run time is `count`.
static Length counted_length(Builder& build, std::string name, ValueId count, int64_t bound) {
  std::map<std::string, int64_t>& lengths = build.module().lengths;
  while (lengths.contains(Length::named(name, bound).text())) name += "_";
  const Length length = Length::named(name, bound);
  lengths.emplace(length.text(), bound);
  build.op(OpKind::NameLength, {count}, {{"name", length.text()}});
  return length;
}

Extent Builder::counted_extent(ValueId count, int64_t bound) {
  if (bound == 0) return {};
  // The user's limit on the count. Each run is checked against it.
  const int64_t most = before_ ? graph_.op(before_).integer_or("count_bound", bound) : bound;
  if (most < bound) {
    const Length found = counted_length(*this, name_ + "_found", count, bound);
    const std::string node = origins_.empty() ? name_ : module_.origins[origins_[0].index].name;
    module_.relations.push_back({format("node '{}'", node), found, most, true, found});
    count = this->op(OpKind::Min, {count, scalar(count, static_cast<double>(most))});
  }
  return run_time_extent(std::min(most, bound), counted_length(*this, name_, count, std::min(most, bound)));
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

ValueId Builder::with_lengths(ValueId x, Shape shape) {
  TensorType type = graph_.type(x);
  WEFT_CHECK(bounds(shape) == type.dims(), "run-time lengths of another shape");
  type.shape = std::move(shape);
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

std::vector<ValueId> inline_region(Graph& graph, const Graph& region, const std::vector<ValueId>& arguments,
                                   OpId before) {
  std::vector<ValueId> mapped(region.value_capacity());
  for (size_t p = 0; p < arguments.size(); ++p) mapped[region.inputs()[p].index] = arguments[p];
  for (OpId id : region.order()) {
    const Op& op = region.op(id);
    if (op.kind == OpKind::Input) continue;
    NewOp copy = copy_of(op);
    copy.regions = op.regions;
    for (ValueId v : op.inputs) copy.inputs.push_back(v ? mapped[v.index] : ValueId{});
    for (ValueId v : op.outputs) {
      copy.results.push_back(region.type(v));
      copy.result_names.push_back(region.value(v).name);
    }
    const OpId made = graph.add(std::move(copy), before);
    for (size_t r = 0; r < op.outputs.size(); ++r) mapped[op.outputs[r].index] = graph.op(made).outputs[r];
  }
  std::vector<ValueId> results;
  for (const Graph::Output& out : region.outputs()) results.push_back(mapped[out.value.index]);
  return results;
}

/// Operands that do not fit each other often show in one of the parts only. That part's record says what is wrong.
static void report(const IllegalOp& illegal, const char* whole, Diags& diags) {
  for (const Diagnostic& said : illegal.diags.all())
    diags.error(said.id, said.loc, "{}", said.message)
        .note(said.loc, "this is said of the {} that {} is decomposed into", op_def(illegal.kind).name, whole);
}

std::vector<ValueId> decompose_op(Module& module, Graph& graph, OpId id, Diags* diags, const ShapeValues* shapes) {
  const Op copy = graph.op(id);
  Builder build(module, graph, id, copy);
  build.has_given_operands_ = true;
  try {
    return op_def(copy).decompose(build, OpView(module, graph, copy, diags, shapes));
  } catch (const IllegalOp& illegal) {
    if (!diags) throw;
    report(illegal, op_def(copy).name, *diags);
    return {};
  }
}

}  // namespace weftc
