// Ops of shape chains: Shape, Size, Range, ConstantOfShape. Exporters compute shapes at run time with them. Nearly all
// are folded here, because extents are constants or run-time lengths, which kernels have:
//
//   s = Shape(x f32[n<=64, 8])   ->   Concat(Reshape(LengthOf {length = "n"}), 8)
#include <cmath>

#include "ir/base/checked.h"
#include "ir/ops/record.h"

namespace weftc {

/// The range of dimensions that a Shape with `start` and `end` returns: [first, last).
static std::pair<int64_t, int64_t> shape_part(const Op& op, int64_t ndim) {
  const auto clamp = [&](int64_t at) { return std::min(std::max<int64_t>(from_front(at, ndim), 0), ndim); };
  const int64_t first = clamp(int_of(op, "start")), last = op.has("end") ? clamp(op.integer("end")) : ndim;
  return {first, std::max(first, last)};
}

static bool infer_shape(const OpView& op, std::vector<TensorType>& results) {
  const auto [first, last] = shape_part(op.op(), op.type(0).ndim());
  results = {{DType::I64, shape_of({last - first}), {}}};
  return true;
}

/// Shapes are global: a rank that holds a slice reports the dims of the whole tensor.
static void eval_shape(EvalContext& context) {
  const Dims& dims = context.global_input_dims.empty() ? context.in(0).dims : context.global_input_dims[0];
  const auto [first, last] = shape_part(context.op, static_cast<int64_t>(dims.size()));
  context.results[0] = Tensor::ints(Dims(dims.begin() + first, dims.begin() + last));
}

/// A constant, or the lengths concatenated to a vector.
static std::vector<ValueId> decompose_shape(Builder& build, const OpView& op) {
  const ValueId x = op.op().inputs[0];
  const auto [first, last] = shape_part(op.op(), op.type(0).ndim());
  const Dims dims = op.dims(0);
  if (is_static(op.type(0).shape)) return {build.ints(Dims(dims.begin() + first, dims.begin() + last))};
  std::vector<ValueId> extents;
  for (int64_t d = first; d < last; ++d)
    extents.push_back(build.reshape(build.length(length_of(build.type(x).shape[d])), {1}));
  if (extents.empty()) return {build.ints({})};
  return {extents.size() == 1 ? extents[0] : build.op(OpKind::Concat, extents, {{"axis", int64_t{0}}})};
}

/// Evaluation needs the type only: a Shape of a fixed shape can be folded even if its operand is not constant.
const OpDef kShape{.kind = OpKind::Shape,
                   .name = "Shape",
                   .onnx = {"Shape"},
                   .attrs = {{"end", AttrType::Int}, {"start", AttrType::Int, 0}},
                   .infer = infer_shape,
                   .eval = eval_shape,
                   .decompose = decompose_shape,
                   .takes_strings = true};

static bool infer_size(const OpView&, std::vector<TensorType>& results) {
  results = {{DType::I64, {}, {}}};
  return true;
}

static void eval_size(EvalContext& context) {
  const Dims& dims = context.global_input_dims.empty() ? context.in(0).dims : context.global_input_dims[0];
  Tensor result(DType::I64, {});
  result.integers[0] = element_count(dims);
  context.results[0] = std::move(result);
}

static std::vector<ValueId> decompose_size(Builder& build, const OpView& op) {
  Length size = 1;
  for (const Extent& extent : op.type(0).shape) size = size * length_of(extent);
  return {build.length(size)};
}

const OpDef kSize{.kind = OpKind::Size,
                  .name = "Size",
                  .onnx = {"Size"},
                  .infer = infer_size,
                  .eval = eval_size,
                  .decompose = decompose_size,
                  .takes_strings = true};

/// start, start + delta, ... before limit.
static int64_t range_count(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  const double steps = std::ceil((limit.at(0) - start.at(0)) / delta.at(0));
  return steps > 0 ? whole_number(steps) : 0;
}

/// The number of elements between two lengths; nothing if that is not a length.
static std::optional<Length> range_length(const OpView& op) {
  const auto start = op.lengths(0), limit = op.lengths(1), delta = op.lengths(2);
  if (!start || !limit || !delta || start->size() != 1 || limit->size() != 1 || delta->size() != 1) return {};
  if (!(*delta)[0].is_constant() || (*delta)[0].constant() == 0) return {};
  const int64_t step = (*delta)[0].constant(), size = std::abs(step);
  const Length span = step > 0 ? (*limit)[0] - (*start)[0] : (*start)[0] - (*limit)[0];
  return floor_quotient(maximum(span, 0) + (size - 1), size);
}

/// The number of elements is an extent, so all three operands must be known, as numbers or as lengths. 16-bit floats
/// are computed in one of the types that Range-27 lets a model choose. Either type gives numbers that are rounded once.
static bool infer_range(const OpView& op, std::vector<TensorType>& results) {
  if (!same_dtypes(op)) return false;
  const int64_t stash = int_of(op.op(), "stash_type");
  if (stash != 1 && stash != 11)
    return op.fail("range-stash-type", "'stash_type' is {}, expected 1 (float) or 11 (double)", stash);
  if (const std::optional<Length> length = range_length(op)) {
    results = {{op.type(0).dtype, {op.extent(*length)}, {}}};
    return true;
  }
  const std::optional<Tensor> start = op.known(0), limit = op.known(1), delta = op.known(2);
  if (!start || !limit || !delta)
    return op.fail(
        "range-runtime-unsupported",
        "start, limit and delta must be known at compile time: fix the input they depend on with --bind, or the "
        "dimensions with --dim");
  if (start->size() != 1 || limit->size() != 1 || delta->size() != 1 || delta->at(0) == 0)
    return op.fail("range-operands", "start, limit and delta must be single numbers, delta not 0");
  results = {{start->dtype, shape_of({range_count(*start, *limit, *delta)}), {}}};
  return true;
}

/// Elements are computed by their global index, so that a rank's slice agrees with the whole.
static void eval_range(EvalContext& context) {
  Tensor result(context.result_dtypes[0], context.result_dims[0]);
  const Tensor &start = context.in(0), &delta = context.in(2);
  for (int64_t i = 0; i < result.size(); ++i) {
    const int64_t at = context.result_index(0, 0, i);
    if (result.is_real())
      result.real[i] = start.real[0] + delta.real[0] * static_cast<double>(at);
    else
      result.put_int(i, start.integers[0] + delta.integers[0] * at);
  }
  context.results[0] = std::move(result);
}

static std::vector<ValueId> decompose_range(Builder& build, const OpView& op) {
  const DType dtype = op.result_type(0).dtype;
  const std::optional<Tensor> start = op.known(0);
  const ValueId numbers = build.op(OpKind::Iota, {},
                                   {{"axis", int64_t{0}},
                                    {"dtype", dtype_attr(dtype)},
                                    {"shape", op.result_type(0).dims()},
                                    {"start", start ? start->at(0) : 0.0},
                                    {"step", op.known(2)->at(0)}});
  build.with_lengths(numbers, op.result_type(0).shape);
  return {start ? numbers : build.op(OpKind::Add, {numbers, op.op().inputs[0]})};
}

/// True if an operand is known as a length only.
static bool depends_on_lengths(const OpView& op) {
  for (int i = 0; i < op.inputs(); ++i)
    if (!op.known(i)) return true;
  return false;
}

const OpDef kRange{.kind = OpKind::Range,
                   .name = "Range",
                   .onnx = {"Range", 11},
                   .attrs = {{"stash_type", AttrType::Int, 1}},
                   .inputs = {3, 3},
                   .infer = infer_range,
                   .eval = eval_range,
                   .decompose = decompose_range,
                   .is_typed_by_parts = depends_on_lengths};

/// ConstantOfShape-9: `value` is a tensor of one element; the default is float 0.
static bool import_constant_of_shape(Graph& graph, OpId id, int, const OpView& view) {
  Op& op = graph.edit(id);
  if (!op.has("value")) return true;
  const Tensor value = view.module().constants.tensor(op.constant("value"));
  if (value.size() != 1)
    return view.fail("constant-of-shape-value", "'value' has {} elements, expected one", value.size());
  if (value.is_real())
    op.set("fill", value.at(0));
  else
    op.set("whole", value.int_at(0));
  op.set("dtype", dtype_attr(value.dtype));
  op.remove("value");
  return true;
}

static bool infer_constant_of_shape(const OpView& op, std::vector<TensorType>& results) {
  const std::optional<std::vector<Length>> lengths = op.lengths(0);
  if (!lengths) return is_known(op, 0, "shape", "shape");
  Shape shape;
  for (const Length& length : *lengths) {
    if (length.low() < 0)
      return op.fail("constant-of-shape-extent", "the shape has the negative extent {}", length.text());
    shape.push_back(op.extent(length));
  }
  results = {{dtype_of_attr(int_of(op.op(), "dtype")), std::move(shape), {}}};
  return true;
}

/// The element that is repeated, a scalar.
static Tensor fill_of(const Op& op, DType dtype) {
  if (is_float(dtype)) return Tensor::scalar(dtype, real_of(op, "fill"));
  Tensor scalar(dtype, {});
  scalar.put_int(0, int_of(op, "whole"));
  return scalar;
}

static void eval_constant_of_shape(EvalContext& context) {
  Tensor result(context.result_dtypes[0], context.result_dims[0]);
  const Tensor fill = fill_of(context.op, result.dtype);
  for (int64_t i = 0; i < result.size(); ++i) result.copy_element(i, fill, 0);
  context.results[0] = std::move(result);
}

/// A scalar that is broadcast to the shape: kernels read it as a literal.
static std::vector<ValueId> decompose_constant_of_shape(Builder& build, const OpView& op) {
  const Dims dims = op.result_type(0).dims();
  const ValueId scalar = build.constant(fill_of(op.op(), op.result_type(0).dtype));
  if (dims.empty()) return {scalar};
  return {build.with_lengths(build.op(OpKind::Expand, {scalar}, {{"shape", dims}}), op.result_type(0).shape)};
}

/// On import ONNX's `value` tensor becomes `dtype` and `fill`, or `whole` for integers.
const OpDef kConstantOfShape{
    .kind = OpKind::ConstantOfShape,
    .name = "ConstantOfShape",
    .onnx = {"ConstantOfShape", 9},
    .attrs = {{.name = "dtype", .type = AttrType::Int, .otherwise = dtype_attr(DType::F32), .is_own = true},
              {.name = "fill", .type = AttrType::Real, .otherwise = 0.0, .is_own = true},
              {"value", AttrType::Tensor},
              {.name = "whole", .type = AttrType::Int, .otherwise = 0, .is_own = true}},
    .import = import_constant_of_shape,
    .infer = infer_constant_of_shape,
    .eval = eval_constant_of_shape,
    .decompose = decompose_constant_of_shape,
    .is_typed_by_parts = depends_on_lengths};

}  // namespace weftc
