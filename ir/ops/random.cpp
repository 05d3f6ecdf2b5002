// Random draws. RandomUniform is the primitive. The draw of an element depends only on the node and on the element's
// global index (ir/README.md, Randomness), so it is the same for every layout and chunking. All others are computed
// from uniform draws:
//
//   RandomNormal     ->  sqrt(-2 log(1 - u)) * cos(2 pi v), two draws an element (Box and Muller, 1958)
//   Bernoulli(p)     ->  u < p
//   Multinomial(x)   ->  how many partial sums of exp(x) are at most u times the whole sum
#include <cmath>
#include <numbers>

#include "ir/ops/formula.h"
#include "ir/ops/source.h"

namespace weftc {

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
  const int64_t first = int_of(context.op, "first");
  const auto seed = static_cast<uint32_t>(context.random.seed),
             node = static_cast<uint32_t>(int_of(context.op, "node"));
  Tensor result(context.result_dtypes[0], context.result_dims[0]);
  const Dims strides = strides_of(context.global_dims.empty() ? result.dims : context.global_dims[0]);
  for (Index at(result.dims); at.more(); at.next()) {
    auto position = static_cast<uint64_t>(first);
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

/// low + (high - low) * u, with u uniform in [0, 1). The draw's number is `first` + the element's global linear index.
/// A node that needs several draws an element takes them from different ranges.
const OpDef kRandomUniform{.kind = OpKind::RandomUniform,
                           .name = "RandomUniform",
                           .onnx = {"RandomUniform"},
                           .attrs = {{"dtype", AttrType::Int, dtype_attr(DType::F32)},
                                     {.name = "first", .type = AttrType::Int, .otherwise = 0, .is_own = true},
                                     {"high", AttrType::Real, 1.0},
                                     {"low", AttrType::Real, 0.0},
                                     {.name = "node", .type = AttrType::Int, .otherwise = 0, .is_own = true},
                                     {"seed", AttrType::Real},
                                     {"shape", AttrType::Ints, {}, true}},
                           .inputs = {0, 0},
                           .category = Category::Source,
                           .import = import_random,
                           .infer = infer_filled,
                           .factors = factors_filled,
                           .eval = eval_random_uniform};

/// Uniform draws in [0, 1) for the elements of a tensor of `dims`. `turn` numbers the draws that the node takes for
/// each element.
static Term uniform(Builder& build, const Op& op, DType dtype, const Dims& dims, int64_t turn = 0) {
  const Attrs attrs{{"dtype", dtype_attr(dtype)},
                    {"first", turn * element_count(dims)},
                    {"node", int_of(op, "node")},
                    {"shape", dims}};
  return {build, build.op(OpKind::RandomUniform, {}, attrs)};
}

/// The dtype that the node requests, else that of the operand.
static DType drawn_dtype(const OpView& op) {
  return op.op().has("dtype") ? dtype_of_attr(op.op().integer("dtype")) : op.type(0).dtype;
}

static bool is_real_draw(const OpView& op, DType dtype) {
  if (is_float(dtype)) return true;
  return op.fail("random-dtype", "draws of element type {} are asked for, a floating type is needed",
                 dtype_name(dtype));
}

static bool infer_normal(const OpView& op, std::vector<TensorType>& results) {
  return infer_filled(op, results) && is_real_draw(op, results[0].dtype);
}

/// A result of the operand's shape.
static bool infer_like(const OpView& op, std::vector<TensorType>& results) {
  if (!is_fixed(op, 0) || !is_real_draw(op, drawn_dtype(op))) return false;
  results = {{drawn_dtype(op), op.type(0).shape, {}}};
  return true;
}

static std::vector<ValueId> decompose_uniform_like(Builder& build, const OpView& op) {
  const Attrs attrs{{"dtype", dtype_attr(op.result_type(0).dtype)},
                    {"high", real_of(op.op(), "high")},
                    {"low", real_of(op.op(), "low")},
                    {"node", int_of(op.op(), "node")},
                    {"shape", op.result_type(0).dims()}};
  return {build.op(OpKind::RandomUniform, {}, attrs)};
}

static std::vector<ValueId> decompose_normal(Builder& build, const OpView& op) {
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): values move
  const TensorType type = op.result_type(0);
  const DType dtype = wide(type.dtype);
  const Term radius = (1 - uniform(build, op.op(), dtype, type.dims())).apply(OpKind::Log) * -2.0;
  const Term angle = uniform(build, op.op(), dtype, type.dims(), 1) * (2 * std::numbers::pi);
  const Term normal = radius.apply(OpKind::Sqrt) * angle.apply(OpKind::Cos);
  return {(normal * real_of(op.op(), "scale") + real_of(op.op(), "mean")).cast(type.dtype).value()};
}

static OpDef normal(OpKind kind, const char* name, Arity inputs, InferFn infer) {
  OpDef def;
  def.kind = kind;
  def.name = name;
  def.onnx = {name};
  def.attrs = {{"dtype", AttrType::Int},
               {"mean", AttrType::Real, 0.0},
               {.name = "node", .type = AttrType::Int, .otherwise = 0, .is_own = true},
               {"seed", AttrType::Real},
               {"scale", AttrType::Real, 1.0},
               {"shape", AttrType::Ints}};
  def.inputs = inputs;
  def.import = import_random;
  def.infer = infer;
  def.decompose = decompose_normal;
  return def;
}

/// The default dtype is f32.
static bool import_normal(Graph& graph, OpId id, int opset, const OpView& view) {
  if (!view.op().has("shape")) return view.fail("random-shape", "RandomNormal needs the attribute 'shape'");
  if (!import_random(graph, id, opset, view)) return false;
  if (!graph.op(id).has("dtype")) graph.edit(id).set("dtype", dtype_attr(DType::F32));
  return true;
}

static OpDef random_normal() {
  OpDef def = normal(OpKind::RandomNormal, "RandomNormal", {0, 0}, infer_normal);
  def.import = import_normal;
  return def;
}

const OpDef kRandomNormal = random_normal();
const OpDef kRandomNormalLike = normal(OpKind::RandomNormalLike, "RandomNormalLike", {1, 1}, infer_like);

const OpDef kRandomUniformLike{.kind = OpKind::RandomUniformLike,
                               .name = "RandomUniformLike",
                               .onnx = {"RandomUniformLike"},
                               .attrs = {{"dtype", AttrType::Int},
                                         {"high", AttrType::Real, 1.0},
                                         {"low", AttrType::Real, 0.0},
                                         {.name = "node", .type = AttrType::Int, .otherwise = 0, .is_own = true},
                                         {"seed", AttrType::Real}},
                               .import = import_random,
                               .infer = infer_like,
                               .decompose = decompose_uniform_like};

/// The result may have any dtype.
static bool infer_bernoulli(const OpView& op, std::vector<TensorType>& results) {
  if (!is_real_operand(op, 0) || !is_fixed(op, 0)) return false;
  results = {{drawn_dtype(op), op.type(0).shape, {}}};
  return true;
}

static std::vector<ValueId> decompose_bernoulli(Builder& build, const OpView& op) {
  const Term p = Term(build, op.op().inputs[0]).cast(wide(op.type(0).dtype));
  return {(uniform(build, op.op(), p.dtype(), p.dims()) < p).cast(op.result_type(0).dtype).value()};
}

const OpDef kBernoulli{.kind = OpKind::Bernoulli,
                       .name = "Bernoulli",
                       .onnx = {"Bernoulli", 15},
                       .attrs = {{"dtype", AttrType::Int},
                                 {.name = "node", .type = AttrType::Int, .otherwise = 0, .is_own = true},
                                 {"seed", AttrType::Real}},
                       .import = import_random,
                       .infer = infer_bernoulli,
                       .decompose = decompose_bernoulli};

/// Logarithms of weights [batch, classes]; indices of classes [batch, samples].
static bool infer_multinomial(const OpView& op, std::vector<TensorType>& results) {
  if (!is_real_operand(op, 0) || !has_ndim(op, 0, 2, 2) || !is_fixed(op, 0)) return false;
  const DType dtype = dtype_of_attr(int_of(op.op(), "dtype"));
  const int64_t samples = int_of(op.op(), "sample_size");
  if (dtype != DType::I32 && dtype != DType::I64)
    return op.fail("random-dtype", "indices of classes have element type {}, expected i32 or i64", dtype_name(dtype));
  if (samples < 1 || op.dims(0)[1] < 1)
    return op.fail("multinomial-count", "{} samples of {} classes cannot be drawn", samples, op.dims(0)[1]);
  results = {{dtype, shape_of({op.dims(0)[0], samples}), {}}};
  return true;
}

/// u is below 1, so u times the whole sum is below the last partial sum: a class is found, and its weight is not 0.
static std::vector<ValueId> decompose_multinomial(Builder& build, const OpView& op) {
  const Term x = Term(build, op.op().inputs[0]).cast(wide(op.type(0).dtype));
  const Dims dims = op.result_type(0).dims();
  const int64_t batch = dims[0], samples = dims[1], classes = x.dims()[1];
  const Term weights = (x - x.reduce(OpKind::ReduceMax, {1}, true)).apply(OpKind::Exp);
  const Term sums(build, build.op(OpKind::CumSum, {weights.value()}, {{"axis", int64_t{1}}}));
  const Term drawn = uniform(build, op.op(), x.dtype(), dims) * sums.slice(1, classes - 1, classes);
  const Term passed = sums.reshape({batch, 1, classes}) <= drawn.reshape({batch, samples, 1});
  return {passed.cast(op.result_type(0).dtype).reduce(OpKind::ReduceSum, {2}, false).value()};
}

const OpDef kMultinomial{.kind = OpKind::Multinomial,
                         .name = "Multinomial",
                         .onnx = {"Multinomial", 7},
                         .attrs = {{"dtype", AttrType::Int, dtype_attr(DType::I32)},
                                   {.name = "node", .type = AttrType::Int, .otherwise = 0, .is_own = true},
                                   {"sample_size", AttrType::Int, 1},
                                   {"seed", AttrType::Real}},
                         .import = import_random,
                         .infer = infer_multinomial,
                         .decompose = decompose_multinomial};

}  // namespace weftc
