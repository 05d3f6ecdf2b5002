// Ops that make values from nothing: inputs, constants, index patterns (Iota), random draws, run-time lengths.
// Patterns and draws know the global index of each element, so that every layout and chunking gives the same
// values without a message.
#include "ir/ops/record.h"

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

/// For ops whose shape is an attribute.
static bool infer_filled(const OpView& op, std::vector<TensorType>& results) {
  for (int64_t extent : ints_of(op.op(), "shape"))
    if (extent < 0) return op.fail("negative-extent", "the shape has the negative extent {}", extent);
  results = {{dtype_of_attr(int_of(op.op(), "dtype")), shape_of(ints_of(op.op(), "shape")), {}}};
  return true;
}

/// Results whose elements know their global position can be made in any layout.
static FactorRule factors_filled(const OpView& op) {
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

/// Output word 0 of Philox4x32-10 (Salmon et al., 2011).
static uint32_t philox(uint32_t key0, uint32_t key1, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
    const auto high0 = static_cast<uint32_t>(p0 >> 32), high1 = static_cast<uint32_t>(p1 >> 32);
    c0 = high1 ^ c1 ^ key0;
    c2 = high0 ^ c3 ^ key1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return c0;
}

/// The counter is the element's global linear index, the trip of the enclosing loop and the invocation
/// (ir/README.md, Randomness).
static void eval_random_uniform(EvalContext& context) {
  const double low = real_of(context.op, "low"), high = real_of(context.op, "high");
  const auto seed = static_cast<uint32_t>(context.random.seed),
             node = static_cast<uint32_t>(int_of(context.op, "node"));
  Tensor result(context.result_dtypes[0], context.result_dims[0]);
  const Dims strides = strides_of(context.global_dims.empty() ? result.dims : context.global_dims[0]);
  for (Index at(result.dims); at.more(); at.next()) {
    uint64_t position = 0;
    for (int d = 0; d < static_cast<int>(strides.size()); ++d)
      position += static_cast<uint64_t>(context.result_index(0, d, at[d]) * strides[d]);
    const uint32_t word =
        philox(seed, node, static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32),
               static_cast<uint32_t>(context.random.trip), static_cast<uint32_t>(context.random.invocation));
    result.put(at.linear(), low + (high - low) * ((word >> 8) * 0x1p-24));  // 24 bits: exact in a float
  }
  context.results[0] = std::move(result);
}

/// The key is the index of the node in the model, which no pass changes.
static bool import_random(Graph& graph, OpId id, int, const OpView& view) {
  Op& op = graph.edit(id);
  if (!op.has("node"))
    op.set("node", op.origins.empty() ? int64_t{0} : int64_t{view.module().origins[op.origins[0].index].index});
  op.remove("seed");  // draws follow the schedule's seed
  return import_dtype(graph, id, "dtype", view);
}

/// low + (high - low) * u, u uniform in [0, 1) from the draw at the element's global linear index.
const OpDef kRandomUniform{.kind = OpKind::RandomUniform,
                           .name = "RandomUniform",
                           .onnx = {"RandomUniform"},
                           .attrs = {{"dtype", AttrType::Int, dtype_attr(DType::F32)},
                                     {"high", AttrType::Real, 1.0},
                                     {"low", AttrType::Real, 0.0},
                                     {"node", AttrType::Int, 0},
                                     {"seed", AttrType::Real},
                                     {"shape", AttrType::Ints, {}, true}},
                           .inputs = {0, 0},
                           .category = Category::Source,
                           .import = import_random,
                           .infer = infer_filled,
                           .factors = factors_filled,
                           .eval = eval_random_uniform};

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
