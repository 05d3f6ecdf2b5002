// Ops without operands: inputs, constants, index patterns (Iota), run-time lengths. Patterns are computed from the
// global index of each element, so that every layout and chunking gives the same values without communication.
#include "ir/ops/source.h"

namespace weftc {

/// The reader or the transform that made the op set the type.
static bool infer_input(const OpView& op, std::vector<TensorType>& results) {
  results = {op.op().outputs.empty() ? TensorType{} : op.result_type(0)};
  return true;
}

const OpDef kInput{.kind = OpKind::Input,
                   .name = "Input",
                   .inputs = {0, 0},
                   .category = Category::Source,
                   .infer = infer_input,
                   .takes_strings = true};

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
                      .infer = infer_constant,
                      .takes_strings = true};

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

/// The index is global: a slice of a pattern is the pattern of the slice.
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

static bool infer_length_of(const OpView& op, std::vector<TensorType>& results) {
  results = {{DType::I64, {}, {}}};
  return op.length().has_value() ||
         op.fail("length-unknown", "'{}' is no length of the model", text_of(op.op(), "length"));
}

static void eval_length_of(EvalContext& context) {
  Tensor result(DType::I64, {});
  const std::string& text = text_of(context.op, "length");
  std::map<std::string, int64_t> bounds;
  for (const auto& known : *context.lengths) bounds.emplace(known.first, INT64_MAX);
  result.integers[0] = number_of(*parse_length(text, bounds), *context.lengths).value();
  context.results[0] = std::move(result);
}

/// A run-time length as a number. It reads no memory: a kernel gets lengths as arguments.
const OpDef kLengthOf{.kind = OpKind::LengthOf,
                      .name = "LengthOf",
                      .attrs = {{"length", AttrType::Text, {}, true}},
                      .inputs = {0, 0},
                      .category = Category::Source,
                      .infer = infer_length_of,
                      .eval = eval_length_of};

}  // namespace weftc
