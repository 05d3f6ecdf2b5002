// Ops that make values from nothing: inputs, constants, index patterns (Iota), run-time lengths. Patterns know the
// global index of each element, so that every layout and chunking gives the same values without a message.
#include "ir/ops/source.h"

namespace weftc {

/// The reader or the transform that made the op set the type.
static bool infer_input(const OpView& op, std::vector<TensorType>& results) {
  results = {op.op().outputs.empty() ? TensorType{} : op.result_type(0)};
  return true;
}

const OpDef kInput{
    .kind = OpKind::Input, .name = "Input", .inputs = {0, 0}, .category = Category::Source, .infer = infer_input};

/// The type of the tensor that the module owns.
static bool infer_constant(const OpView& op, std::vector<TensorType>& results) {
  const Constant& constant = op.module().constants[op.op().constant("value")];
  results = {{constant.dtype, shape_of(constant.dims), {}}};
  return true;
}

/// The evaluator reads the tensor from the module.
const OpDef kConstant{.kind = OpKind::Constant,
                      .name = "Constant",
                      .onnx = {"Constant"},
                      .attrs = {{"value", AttrType::Tensor, {}, true}},
                      .inputs = {0, 0},
                      .category = Category::Source,
                      .infer = infer_constant};

bool infer_filled(const OpView& op, std::vector<TensorType>& results) {
  for (int64_t extent : ints_of(op.op(), "shape"))
    if (extent < 0) return op.fail("negative-extent", "the shape has the negative extent {}", extent);
  results = {{dtype_of_attr(int_of(op.op(), "dtype")), shape_of(ints_of(op.op(), "shape")), {}}};
  return true;
}

FactorRule factors_filled(const OpView& op) {
  FactorRule rule = pass_rule(op.result_type(0).shape);
  std::vector<int>& out = rule.outputs.emplace_back();
  for (int d = 0; d < op.result_type(0).ndim(); ++d) out.push_back(d);
  return rule;
}

/// The index is the global one: a slice of a pattern is the pattern of the slice.
static void eval_iota(EvalContext& context) {
  const double start = real_of(context.op, "start"), step = real_of(context.op, "step");
  const int axis = static_cast<int>(int_of(context.op, "axis"));
  Tensor result(context.result_dtypes[0], context.result_dims[0]);
  for (Index at(result.dims); at.more(); at.next())
    result.put(at.linear(), start + step * static_cast<double>(context.result_index(0, axis, at[axis])));
  context.results[0] = std::move(result);
}

/// start + step * (index along axis).
const OpDef kIota{.kind = OpKind::Iota,
                  .name = "Iota",
                  .attrs = {{"axis", AttrType::Int, 0},
                            {"dtype", AttrType::Int, dtype_attr(DType::I64)},
                            {"shape", AttrType::Ints, {}, true},
                            {"start", AttrType::Real, 0.0},
                            {"step", AttrType::Real, 1.0}},
                  .inputs = {0, 0},
                  .category = Category::Source,
                  .infer = infer_filled,
                  .factors = factors_filled,
                  .eval = eval_iota};

static bool infer_extent_of(const OpView& op, std::vector<TensorType>& results) {
  if (!op.axis("axis", op.type(0).ndim())) return false;
  results = {{DType::I64, {}, {}}};
  return true;
}

/// The length that the operand has on this run.
static void eval_extent_of(EvalContext& context) {
  const int64_t axis = int_of(context.op, "axis");
  const Dims& dims = context.global_input_dims.empty() ? context.in(0).dims : context.global_input_dims[0];
  Tensor result(DType::I64, {});
  result.integers[0] = dims[from_front(axis, static_cast<int64_t>(dims.size()))];
  context.results[0] = std::move(result);
}

/// The extent of the dimension that the op measures.
static Extent extent_asked(const OpView& op) {
  return op.type(0).shape[from_front(int_of(op.op(), "axis"), op.type(0).ndim())];
}

/// The value that counts the dimension already, or a constant if the dimension is not bounded but fixed.
static std::vector<ValueId> decompose_extent_of(Builder& build, const OpView& op) {
  const Extent extent = extent_asked(op);
  return {extent.count ? extent.count : build.constant(Tensor::scalar(DType::I64, static_cast<double>(extent.bound)))};
}

/// The run-time length of a dimension. It stays where it defines the count of its operand's dimension.
const OpDef kExtentOf{.kind = OpKind::ExtentOf,
                      .name = "ExtentOf",
                      .attrs = {{"axis", AttrType::Int, {}, true}},
                      .category = Category::Source,
                      .infer = infer_extent_of,
                      .canonicalize = canonical_axis,
                      .eval = eval_extent_of,
                      .decompose = decompose_extent_of,
                      .is_primitive = [](const OpView& op) { return extent_asked(op).count == op.op().outputs[0]; }};

}  // namespace weftc
